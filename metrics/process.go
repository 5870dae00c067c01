package metrics

import (
	"os"
	"strconv"
	"strings"
)

// residentBytes is the memory of the process that is in RAM, as the kernel counts it;
// 0 if it does not say.
func residentBytes() float64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	f := strings.Fields(string(text))
	if len(f) < 2 {
		return 0
	}
	pages, err := strconv.ParseFloat(f[1], 64)
	if err != nil {
		return 0
	}
	return pages * float64(os.Getpagesize())
}
