// Command bench measures toold against references in one run on one machine and prints ratios.
//
// The daemon runs as a process of its own in production configuration (token auth, permission gate, one log line for
// each call, journal on disk), with no-op tools that test/bench/toold adds. The reference for calls
// is a bare grpc-go server with the same options that answers the same frames, and MCP servers of two libraries
// (test/bench/mcp, a module of its own); for durable steps it is the same rows straight into the store, and raw appends with
// fdatasync. Sides alternate A B A B; a row prints the median ratio and its spread over the rounds, because these
// machines are shared: server CPU for each call is the steadier number.
package main
