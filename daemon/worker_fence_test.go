package daemon

import (
	"context"
	"net"
	"os"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	tooldv1 "github.com/toold-dev/toold/proto/toold/v1"
)

// twoOwners is a fake daemon that acts as two successive owners of one store. It sends work to a worker and reports whether the worker
// began the work.
type twoOwners struct {
	tooldv1.UnimplementedWorkerServiceServer
	tooldv1.UnimplementedAdminServiceServer
	began chan bool
}

func (o *twoOwners) GetInfo(context.Context, *tooldv1.GetInfoRequest) (*tooldv1.GetInfoResponse, error) {
	return &tooldv1.GetInfoResponse{Version: "unknown"}, nil
}

var ownersWork = []struct {
	epoch  int64
	call   string
	number int32
	begins bool
}{
	{0, "a", 1, true}, // sent by an old daemon that has no epochs
	{2, "a", 2, true},
	{2, "a", 1, false},
	{1, "b", 1, false},
	{2, "b", 1, true},
	{3, "b", 2, true},
	{2, "c", 1, false},
}

func (o *twoOwners) Connect(stream grpc.BidiStreamingServer[tooldv1.ConnectRequest, tooldv1.ConnectResponse]) error {
	if _, err := stream.Recv(); err != nil {
		return err
	}
	err := stream.Send(&tooldv1.ConnectResponse{Message: &tooldv1.ConnectResponse_Registered{Registered: &tooldv1.WorkerRegistered{
		WorkerId: "w", Lease: durationpb.New(time.Minute), StoreId: "s", Epoch: 2,
	}}})
	for i := 0; i < len(ownersWork) && err == nil; i++ {
		work, lease := ownersWork[i], string(rune('a'+i))
		err = stream.Send(&tooldv1.ConnectResponse{Message: &tooldv1.ConnectResponse_Start{Start: &tooldv1.WorkerStart{
			LeaseId: lease, Kind: tooldv1.WorkKind_WORK_KIND_EXECUTE, Epoch: work.epoch,
			Call: &tooldv1.WorkerCall{Tool: "greet", Arguments: `{"name":"Ada"}`, Namespace: "default", CallId: work.call, Attempt: work.number},
		}}})
		for err == nil {
			var m *tooldv1.ConnectRequest
			if m, err = stream.Recv(); m.GetDone().GetLeaseId() == lease {
				o.began <- m.GetDone().GetResult().GetStatus() == tooldv1.ResultStatus_RESULT_STATUS_SUCCESS && !m.GetDone().GetNotRun()
				err = stream.Send(&tooldv1.ConnectResponse{Message: &tooldv1.ConnectResponse_Ack{Ack: &tooldv1.WorkerAck{LeaseId: lease}}})
				break
			}
		}
	}
	if err == nil {
		<-stream.Context().Done()
	}
	return err
}

// TestT126WorkersRefuseAFencedOwner (T126) checks that a worker refuses work from a daemon that has lost its store, when the worker knows
// the newer owner. When the worker has begun an attempt of a call, it also refuses an earlier attempt of the same call.
func TestT126WorkersRefuseAFencedOwner(t *testing.T) {
	inEach(t, func(t *testing.T, l language) {
		lis, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		owners := &twoOwners{began: make(chan bool, len(ownersWork))}
		srv := grpc.NewServer()
		tooldv1.RegisterWorkerServiceServer(srv, owners)
		tooldv1.RegisterAdminServiceServer(srv, owners)
		served := make(chan error, 1)
		go func() { served <- srv.Serve(lis) }()
		t.Cleanup(func() {
			srv.Stop()
			<-served
		})
		cmd := l.command(t, lis.Addr().String())
		if cmd.Env == nil {
			cmd.Env = os.Environ()
		}
		cmd.Env = append(cmd.Env, "TOOLD_TEST_TOKEN=none")
		must(t, cmd.Start())
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
		for _, work := range ownersWork {
			select {
			case began := <-owners.began:
				if began != work.begins {
					t.Errorf("epoch %d, call %s, attempt %d: began %t, want %t", work.epoch, work.call, work.number, began, work.begins)
				}
			case <-time.After(hangs):
				t.Fatal("the worker says nothing")
			}
		}
	})
}
