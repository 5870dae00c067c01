// Package pagecache keeps answers of local applications, as LiteSpeed does: the
// application says what is kept, for how long and under which tags, in fields of its
// answers (X-LiteSpeed-Cache-Control, -Tag, -Vary, -Purge) that no client ever sees; the
// operator says where the cache takes part at all. It knows no configuration file and
// finds no route: contexts begins a Run for each exchange of a site that has a cache, and
// lets it answer in the place of the handler.
//
// It is not the cache of RFC 9111 for proxied applications: it obeys the application and
// the operator, not the client.
//
// A Run is two filters. The one next to the handler takes the answer as it was made, the
// one next to the wire reads the policy when contexts and .htaccess files have had their
// say, takes it off, and decides. So what is kept is what the application made, and
// edits are made anew for every client.
package pagecache
