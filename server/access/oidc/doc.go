// Package oidc verifies tokens that OpenID Connect issuers signed.
//
// A [Verifier] knows a list of issuers. It turns a token (JWT) of one of them into a principal. The subject is the configured name of the
// issuer, a colon, and the claim sub, so the same sub of two issuers is two people. Namespace and roles follow from the configuration of
// that issuer alone.
//
// The keys of an issuer come from the issuer or from a file, never from a token. The package fetches keys only when a token needs them. The
// daemon can therefore start while an issuer is down.
package oidc
