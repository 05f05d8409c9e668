package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
)

func tokenCommand(a *App) *cobra.Command {
	c := &cobra.Command{
		Use: "token", Short: "Print the path of the token file, or manage tokens", Args: NoArgs,
		Long: `Prints the path of the file with the token that the daemon created at its first
start. The command line finds this file without help. Other clients send the
token in the header "authorization: Bearer …".`,
		Example: `  grpcurl -H "authorization: Bearer $(cat $(toold token))" …`,
		RunE: func(*cobra.Command, []string) error {
			file, err := filepath.Abs(filepath.Join(a.dataDir(), tokenName))
			if err != nil {
				return err
			}
			fmt.Fprintln(a.Out, file)
			if _, err := os.Stat(file); errors.Is(err, os.ErrNotExist) {
				return codedError{errors.New("the file does not exist: the daemon creates it at its first start; check --data"), ExitNotFound}
			}
			return nil
		},
	}
	c.AddCommand(tokenCreateCommand(a), tokenListCommand(a), tokenRevokeCommand(a), &cobra.Command{
		Use: "hash", Short: "Read a token and print its hash for auth.tokens", Args: NoArgs,
		Long: `Reads a token from standard input and prints its hash for the setting
auth.tokens. The command does not store the token.`,
		Example: "  openssl rand -hex 32 | tee token.txt | toold token hash",
		RunE: func(*cobra.Command, []string) error {
			text, err := readAtMost(a.In, 4096)
			if err != nil {
				return err
			}
			token := strings.TrimSpace(text)
			if len(token) < 32 || strings.ContainsAny(token, " \t\r\n") {
				return Usagef("a token is one word of at least 32 random characters, such as: openssl rand -hex 32")
			}
			sum := sha256.Sum256([]byte(token))
			fmt.Fprintln(a.Out, "sha256:"+hex.EncodeToString(sum[:]))
			return nil
		},
	})
	return c
}
