// A HookService that lets only operators make irreversible changes. Its argument is the socket on which it listens.
package main

import (
	"context"
	"log"
	"net"
	"os"
	"slices"

	"google.golang.org/grpc"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// policy implements gates and no other kind of hook.
type policy struct {
	tooldv1.UnimplementedHookServiceServer
}

// Gate has no side effects: toold may ask it twice, and also when no call will run.
func (policy) Gate(_ context.Context, q *tooldv1.GateRequest) (*tooldv1.GateResponse, error) {
	in := q.GetInput()
	destroys := in.GetAssessment().GetSafety() == tooldv1.Safety_SAFETY_DESTRUCTIVE
	if destroys && !slices.Contains(in.GetCaller().GetRoles(), tooldv1.Role_ROLE_OPERATOR) {
		reason := in.GetTool() + " would destroy something: only an operator may do that"
		return &tooldv1.GateResponse{Verdict: &tooldv1.GateResponse_Deny{Deny: &tooldv1.GateDeny{Reason: reason}}}, nil
	}
	return &tooldv1.GateResponse{Verdict: &tooldv1.GateResponse_Allow{Allow: &tooldv1.GateAllow{}}}, nil
}

func main() {
	lis, err := net.Listen("unix", os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer()
	tooldv1.RegisterHookServiceServer(server, policy{})
	log.Fatal(server.Serve(lis))
}
