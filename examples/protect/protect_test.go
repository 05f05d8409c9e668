package protect_test

import (
	"context"
	"fmt"

	"github.com/toold-dev/toold/examples/protect"
	"github.com/toold-dev/toold/hook"
	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tool/typed"
)

func Example() {
	gate := &protect.Gate{Never: []string{".env"}, Ask: []string{"migrations/*"}}
	check := func(file string, effects tool.Effects, answer *tool.Decision) {
		in := &hook.Input{
			Descriptor: &tool.Descriptor{ID: "edit"},
			Arguments:  typed.Args(map[string]string{"path": file}),
			Assessment: effects,
		}
		v, err := gate.Check(context.Background(), in.WithAnswer(answer))
		fmt.Println(file, v.Kind(), v.Reason()+v.Result().ModelText(), err)
	}
	changes, reads := tool.Effects{}, tool.Effects{Mutability: tool.ReadOnly}

	check("src/main.go", changes, nil)
	check("src/../config/.env", reads, nil)
	check("migrations/1.sql", reads, nil)
	check("migrations/1.sql", changes, nil)
	check("migrations/1.sql", changes, &tool.Decision{Action: tool.Resume})
	// Output:
	// src/main.go ALLOW  <nil>
	// src/../config/.env SET_RESULT config/.env must not be changed <nil>
	// migrations/1.sql ALLOW  <nil>
	// migrations/1.sql SUSPEND May edit change migrations/1.sql? <nil>
	// migrations/1.sql ALLOW  <nil>
}
