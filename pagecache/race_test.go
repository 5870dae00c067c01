//go:build race

package pagecache

// raced: the race detector has pools lose what they hold.
const raced = true
