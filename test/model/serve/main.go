// Command serve runs a recorded model, so that an agent can be tried without a provider:
//
//	serve -recording steps.jsonl -listen 127.0.0.1:8000
//
// It prints its URL, which is the MODEL_URL of the example agents.
package main

import (
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/toold-dev/toold/test/model"
)

func main() {
	recording := flag.String("recording", "", "file with a step on each line; required")
	listen := flag.String("listen", "127.0.0.1:0", "address")
	flag.Parse()
	if err := serve(*recording, *listen); err != nil {
		fmt.Fprintln(os.Stderr, "serve:", err)
		os.Exit(1)
	}
}

func serve(recording, listen string) error {
	f, err := os.Open(recording)
	if err != nil {
		return err
	}
	defer f.Close()
	steps, err := model.Read(f)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	fmt.Printf("http://%s\n", l.Addr())
	server := &http.Server{Handler: model.New(steps), ReadHeaderTimeout: time.Minute}
	return server.Serve(l)
}
