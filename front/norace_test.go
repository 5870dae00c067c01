//go:build !race

package front_test

const raced = false
