package daemon

import (
	"reflect"
	"testing"

	"github.com/toold-dev/toold/hook"
)

// TestJoinedHasEveryKind checks that no kind of hook is lost when sets are joined, and that the joined set shares no memory with the first.
func TestJoinedHasEveryKind(t *testing.T) {
	var one hook.Set
	kinds := reflect.ValueOf(&one).Elem()
	for i := range kinds.NumField() {
		kinds.Field(i).Set(reflect.MakeSlice(kinds.Field(i).Type(), 1, 8))
	}
	both := joined(one, one)
	got := reflect.ValueOf(&both).Elem()
	for i := range got.NumField() {
		if kind := got.Field(i); kind.Len() != 2 || kind.Pointer() == kinds.Field(i).Pointer() {
			t.Errorf("%s has %d hooks, want 2 in a new list", got.Type().Field(i).Name, kind.Len())
		}
	}
}
