// Command bench compares toold with references on the same machine and prints ratios.
//
// The daemon runs as a separate process in production configuration: token authentication, permission gate, one log line per call, journal
// on disk. It runs no-op tools, which test/bench/toold adds.
//
// The references are:
//   - for calls, a bare grpc-go server with the same options that answers with the same frames, and MCP servers of two libraries (test/bench/mcp, a separate module);
//   - for durable steps, the same rows written directly to the store, and raw appends with fdatasync.
//
// Daemon and reference run in turn (A B A B). A row prints the median ratio and its spread over the rounds, because other work on the
// machine disturbs single measurements. The server CPU per call varies less than the rates.
package main
