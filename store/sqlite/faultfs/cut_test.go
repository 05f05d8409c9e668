package faultfs_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toold-dev/toold/store/sqlite/faultfs"
)

func TestCut(t *testing.T) {
	write := func(name string, at int64, text string) faultfs.Op {
		return faultfs.Op{Kind: faultfs.Write, Name: name, Offset: at, Data: []byte(text)}
	}
	op := func(k faultfs.Kind, name string) faultfs.Op { return faultfs.Op{Kind: k, Name: name} }
	lose := func(faultfs.Op) faultfs.Survival { return faultfs.Survival{Lost: true} }
	keep := func(faultfs.Op) faultfs.Survival { return faultfs.Survival{} }
	long := strings.Repeat("x", 512)
	tests := []struct {
		name   string
		log    []faultfs.Op
		choose func(faultfs.Op) faultfs.Survival
		want   faultfs.Files
	}{
		{"what was synced stays", []faultfs.Op{write("db", 0, "ab"), op(faultfs.Sync, "db"), write("db", 0, "x")}, lose, faultfs.Files{"db": []byte("abd")}},
		{"what was not may stay", []faultfs.Op{write("db", 1, "bc"), write("db", 0, "x")}, keep, faultfs.Files{"db": []byte("xbc")}},
		{"a sync is of one file", []faultfs.Op{write("db", 0, "x"), op(faultfs.Create, "wal"), write("wal", 0, "w"), op(faultfs.Sync, "wal")}, lose, faultfs.Files{"db": []byte("old"), "wal": []byte("w")}},
		{"a new file goes with its content", []faultfs.Op{op(faultfs.Create, "wal"), write("wal", 0, "w")}, lose, faultfs.Files{"db": []byte("old")}},
		{
			"a deleted file may come back", []faultfs.Op{op(faultfs.Delete, "db")}, lose, faultfs.Files{"db": []byte("old")},
		},
		{
			"not once the directory was synced", []faultfs.Op{op(faultfs.Delete, "db"), op(faultfs.Create, "wal"), op(faultfs.Sync, "wal")}, lose,
			faultfs.Files{"wal": nil},
		},
		{"a truncation may be lost", []faultfs.Op{{Kind: faultfs.Truncate, Name: "db"}, write("db", 0, "n")}, func(o faultfs.Op) faultfs.Survival {
			return faultfs.Survival{Lost: o.Kind == faultfs.Truncate}
		}, faultfs.Files{"db": []byte("nld")}},
		{"a write is torn at sectors", []faultfs.Op{write("db", 0, long+"second")}, func(faultfs.Op) faultfs.Survival {
			return faultfs.Survival{Sectors: func(sector int) bool { return sector == 1 }}
		}, faultfs.Files{"db": []byte("old" + strings.Repeat("\x00", 509) + "second")}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			power := faultfs.NewPower(faultfs.Files{"db": []byte("old")})
			for _, o := range tt.log {
				power.Do(o)
			}
			if diff := cmp.Diff(tt.want, power.Cut(tt.choose)); diff != "" {
				t.Errorf("files differ (-want +got):\n%s", diff)
			}
		})
	}
}
