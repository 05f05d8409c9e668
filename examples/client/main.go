// Command client calls a tool of the daemon that "make run" starts, and prints the text for the model.
package main

import (
	"context"
	"fmt"
	"log"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

func main() {
	conn, err := grpc.NewClient("unix:data/toold.sock", grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	spec := &tooldv1.CallSpec{Tool: "grep", Arguments: `{"pattern": "TODO"}`}
	answer, err := tooldv1.NewCallServiceClient(conn).CallTool(context.Background(), &tooldv1.CallToolRequest{Spec: spec})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(answer.GetCall().GetResult().GetMessage())
}
