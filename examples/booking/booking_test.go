package booking_test

import (
	"context"
	"fmt"

	"github.com/toold-dev/toold/examples/booking"
	"github.com/toold-dev/toold/tool"
	"github.com/toold-dev/toold/tool/typed"
)

func Example() {
	book := booking.New()
	execute := func(args booking.Args) *tool.Result {
		res, err := book.Execute(context.Background(), &tool.Call{Arguments: typed.Args(args)})
		if err != nil {
			panic(err)
		}
		return res
	}
	assess := func(room string) []tool.Resource {
		return book.(tool.Assessor).Assess(typed.Args(booking.Args{Room: room})).Resources
	}

	fmt.Println(execute(booking.Args{Room: "Lisbon", Day: "2026-11-24"}).ModelText())
	fmt.Println(execute(booking.Args{Room: "lisbon", Day: "2026-11-24"}).ModelText())
	fmt.Println("Lisbon overlaps LISBON:", tool.Overlap(assess("Lisbon"), assess("LISBON")))
	fmt.Println("Lisbon overlaps Porto:", tool.Overlap(assess("Lisbon"), assess("Porto")))
	// Output:
	// booked
	// room "lisbon" is taken on 2026-11-24
	// Lisbon overlaps LISBON: true
	// Lisbon overlaps Porto: false
}
