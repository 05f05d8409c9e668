package policy

import (
	"context"
	"sync"

	"go.uber.org/zap"

	"github.com/toold-dev/toold/store"
)

// A Config holds the dependencies of a Service. All fields except Modes are required.
type Config struct {
	Policies *Policies
	Owners   *Owners
	Modes    Modes // nil when there are no permission modes
	Log      *zap.Logger
	// Refused converts an error of the store into the error for the client. id is the id of the policy that the error is about.
	Refused func(err error, id string) error
}

// A Service lists and changes policies for principals. Its methods may be called concurrently.
type Service struct {
	cfg     Config
	setting sync.Mutex // held during each change, including its commit
}

// NewService returns a Service.
func NewService(c Config) *Service { return &Service{cfg: c} }

// Load replaces the policies in memory with those in the journal. Call it at start, and after calls were trimmed or purged.
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
