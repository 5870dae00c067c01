//go:build !race

package pagecache

const raced = false
