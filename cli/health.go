package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
)

func healthCommand(a *App) *cobra.Command {
	var service string
	var timeout time.Duration
	c := &cobra.Command{
		Use: "health", Short: "Check whether the daemon serves", Example: "  toold health --timeout 1s", Args: NoArgs,
		Long: `Asks the daemon whether it serves. Containers and load balancers can use the
command as a health check. The exit code is:

  0  the daemon serves
  4  no daemon answers
  9  the daemon starts or stops`,
		RunE: a.withClient(func(ctx context.Context, c *client, _ []string) error {
			ctx, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			got, err := c.health.Check(ctx, &healthv1.HealthCheckRequest{Service: service})
			if errors.Is(ctx.Err(), context.DeadlineExceeded) {
				return codedError{fmt.Errorf("no answer from %s within %v", a.connection.used, timeout), ExitUnreachable}
			}
			if err != nil {
				return err
			}
			fmt.Fprintln(a.Out, got.GetStatus())
			if got.GetStatus() != healthv1.HealthCheckResponse_SERVING {
				return ending(ExitBusy)
			}
			return nil
		}),
	}
	c.Flags().StringVar(&service, "service", "", "check one service, such as toold.v1.CallService; if empty, the whole daemon")
	c.Flags().DurationVar(&timeout, "timeout", 2*time.Second, "longest time to wait")
	return c
}
