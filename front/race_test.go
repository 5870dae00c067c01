//go:build race

package front_test

// raced: the race detector has pools lose what they hold.
const raced = true
