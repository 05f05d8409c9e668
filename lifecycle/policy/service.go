package policy

import (
	"context"
	"sync"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/store"
)

// A Config is what a service needs.
type Config struct {
	Policies *Policies
	Owners   *Owners
	Modes    Modes // nil: there are no permission modes
	Log      *zap.Logger
	// Refused returns what a client learns of an error of the store; id names the policy.
	Refused func(err error, id string) error
}

// A Service lists and changes policies for principals. Its methods may be called from many goroutines.
type Service struct {
	cfg     Config
	setting sync.Mutex // held while a policy is set or removed, over the commit
}

// NewService returns a service; all fields of c but Modes are required.
func NewService(c Config) *Service { return &Service{cfg: c} }

// Load replaces the policies in force by what the journal has. Call it at the start, and after calls were trimmed or purged.
func (s *Service) Load(ctx context.Context) error {
	s.setting.Lock()
	defer s.setting.Unlock()
	return s.cfg.Policies.load(ctx, s.cfg.Log)
}

// put stores a policy that belongs to no call.
func (s *Service) put(ctx context.Context, policy store.Policy) error {
	if err := s.cfg.Policies.store.PutPolicy(context.WithoutCancel(ctx), policy); err != nil {
		return s.cfg.Refused(err, policy.Key)
	}
	return nil
}
