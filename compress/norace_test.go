//go:build !race

package compress

const raced = false
