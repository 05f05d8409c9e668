package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// errorData is the member data of a JSON-RPC error: the status of the API.
type errorData struct {
	Code       string `json:"code"`
	Reason     string `json:"reason,omitempty"`
	RetryAfter string `json:"retryAfter,omitempty"` // such as 1.5s
}

// wireError converts an error of the API to a JSON-RPC error. A mistake of the client gets the code -32602, and any other error gets
// -32603.
func wireError(err error) error {
	var wire *jsonrpc.Error
	if errors.As(err, &wire) || errors.Is(err, context.Canceled) {
		return err
	}
	st := status.Convert(err)
	message, data := st.Message(), errorData{Code: code.Code(st.Code()).String()}
	for _, d := range st.Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			data.Reason = d.GetReason()
		case *errdetails.RetryInfo:
			data.RetryAfter = d.GetRetryDelay().AsDuration().String()
		case *errdetails.BadRequest:
			message = violations(d)
		}
	}
	wire = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: message}
	switch st.Code() {
	case codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.OutOfRange, codes.FailedPrecondition:
		wire.Code = jsonrpc.CodeInvalidParams
	}
	wire.Data, _ = json.Marshal(data) // Ignore the error: a struct of strings can always be encoded.
	return wire
}

// violations returns the invalid fields of a request, separated by semicolons.
func violations(bad *errdetails.BadRequest) string {
	var all []string
	for _, v := range bad.GetFieldViolations() {
		all = append(all, strings.TrimSpace(v.GetField()+" "+v.GetDescription()))
	}
	return strings.Join(all, "; ")
}

// invalid returns an error about the parameters of a request.
func invalid(message string) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: message}
}
