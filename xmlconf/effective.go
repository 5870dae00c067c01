package xmlconf

import (
	"reflect"
	"time"
)

// Effective returns what the honoured values of a block are, by the names of its
// elements: written or not, durations in seconds, sizes in bytes. Blocks within it
// are left out, and so are paths of files: they may be those of keys. block points to a struct of this package.
func Effective(block any) map[string]any {
	v := reflect.ValueOf(block).Elem()
	out := map[string]any{}
	for _, e := range (schemas{}).of(v.Type()).elements {
		if e.index == nil || e.as != honoured || e.block() != nil || e.unit == "path" {
			continue
		}
		switch x := v.FieldByIndex(e.index).Interface().(type) {
		case time.Duration:
			out[e.name] = x.Seconds()
		case []string:
			out[e.name] = append([]string{}, x...) // an empty list, not null
		default:
			out[e.name] = x
		}
	}
	return out
}
