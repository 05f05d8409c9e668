package helper_test

import (
	"slices"
	"testing"

	"github.com/toold-dev/toold/sandbox/helper"
)

func FuzzDecodeOrder(f *testing.F) {
	o := helper.Order{Version: helper.Version, Path: "/bin/true", Args: []string{"true", "", "a b"}, Env: []string{"A=1", "B="}}
	good, err := o.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add(good[:len(good)-1])
	f.Add([]byte{255, 255, 255, 255, 255, 255, 255, 255})
	f.Fuzz(func(t *testing.T, b []byte) {
		o, args, env, err := helper.DecodeOrder(b)
		if err != nil {
			return
		}
		for _, list := range [][][]byte{args, env} {
			for _, text := range list {
				if slices.Index(text, 0) != len(text)-1 {
					t.Errorf("text %q has its end not at its end", text)
				}
			}
		}
		if len(args) == 0 || o.Version != helper.Version {
			t.Errorf("order %+v with the arguments %q", o, args)
		}
	})
}

func TestOrderKeepsWhatItIsGiven(t *testing.T) {
	o := helper.Order{Version: helper.Version, Args: []string{"true", "", "a b\n"}, Env: []string{"A=1", "B="}}
	b, err := o.Encode()
	if err != nil {
		t.Fatal(err)
	}
	_, args, env, err := helper.DecodeOrder(b)
	var got []string
	for _, text := range slices.Concat(args, env) {
		got = append(got, string(text))
	}
	if want := []string{"true\x00", "\x00", "a b\n\x00", "A=1\x00", "B=\x00"}; err != nil || len(args) != 3 || !slices.Equal(got, want) {
		t.Errorf("got %q, %v", got, err)
	}
}
