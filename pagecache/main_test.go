package pagecache

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if text := os.Getenv(doomed); text != "" {
		fmt.Fprintln(os.Stderr, storeUntilKilled(text))
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}
