// Package store keeps responses for the caches: in bounded memory, by key and
// variant, until they are evicted, purged or too old. What a key is made of, what may
// be stored and how long it is fresh are the caches' own affairs. It reads no clock,
// starts no goroutine and touches no file: whoever owns a Store calls Sweep from time
// to time, and tells by Options.Leave what is to happen when an entry leaves.
//
// A look-up takes no lock and no memory, and reads as little of it as it can. Whoever walks over all entries, or all tags, holds a lock for a few of them
// at a time: nobody waits for a million. A purge is a number written to a tag, which
// look-ups compare (Entry.State), or a prefix that they compare until a sweep has written
// it to the tags; so its time does not depend on how many entries it is about. Their
// memory is given back by Sweep, by the next look-up that meets them, or by eviction,
// whatever comes first.
package store
