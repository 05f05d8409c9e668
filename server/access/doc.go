// Package access authenticates clients and decides which methods they may call. All endpoints use it.
//
// An [Auth] turns a credential, or the local user of a unix socket, into an [Identity]: a principal with the roles that its credential
// grants. [Table] names every method with its [Rule]; no client may call a method that is not in the table.
package access
