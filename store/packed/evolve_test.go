package packed

import (
	"reflect"
	"testing"
)

// A later release may have more fields and fewer. It is inside the package because the records of today have none of
// the fields of tomorrow.
func TestFieldsComeAndGo(t *testing.T) {
	type part struct {
		X int `json:"x"`
	}
	type before struct {
		Gone   string         `json:"gone"`
		Kept   string         `json:"kept"`
		Parts  []part         `json:"parts"`
		Number int64          `json:"number"`
		Map    map[string]int `json:"map"`
		Last   string         `json:"last"`
		At     *part          `json:"at"`
	}
	type after struct {
		Last string `json:"last"`
		New  string `json:"new"`
		Kept string `json:"kept"`
	}
	codec := func(v any) *structCodec { return structOf(reflect.TypeOf(v), map[reflect.Type]*structCodec{}) }
	old := before{"gone", "kept", []part{{1}, {}}, -7, map[string]int{"a": 1}, "last", &part{2}}
	b := codec(old).encode([]byte{version}, reflect.ValueOf(old))
	var now after
	if err := decode(b, codec(now), reflect.ValueOf(&now).Elem()); err != nil || now != (after{Last: "last", Kept: "kept"}) {
		t.Errorf("decode = %+v, %v", now, err)
	}
	b = codec(now).encode([]byte{version}, reflect.ValueOf(now))
	var back before
	if err := decode(b, codec(back), reflect.ValueOf(&back).Elem()); err != nil || !reflect.DeepEqual(back, before{Kept: "kept", Last: "last"}) {
		t.Errorf("decode = %+v, %v", back, err)
	}
	type retyped struct {
		Kept int `json:"kept"`
	}
	var wrong retyped
	if err := decode(b, codec(wrong), reflect.ValueOf(&wrong).Elem()); err == nil {
		t.Errorf("a field with another type was read as %+v", wrong)
	}
}
