package main

import (
	"testing"

	"github.com/tidemark-streams/tidemark"
	"github.com/tidemark-streams/tidemark/internal/config"
	"github.com/tidemark-streams/tidemark/internal/kafka/client"
)

// TestTimeoutsAreOneTable: what the configuration promises and checks is what is kept (section 4).
func TestTimeoutsAreOneTable(t *testing.T) {
	kept := config.Timeouts{
		Heartbeat: tidemark.Heartbeat, Session: tidemark.Session, Watchdog: tidemark.Watchdog, Restore: tidemark.Restore,
		Delivery: client.DeliveryTimeout, Transaction: client.TransactionTimeout,
	}
	if table := config.DefaultTimeouts(); table != kept {
		t.Errorf("the table says %+v, kept are %+v", table, kept)
	}
	if err := kept.Check(); err != nil {
		t.Error(err)
	}
}
