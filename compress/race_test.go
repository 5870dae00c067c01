//go:build race

package compress

// raced: the race detector has pools lose what they hold.
const raced = true
