package client

// The bounds of this package that others must know, for they must be shorter than theirs (section 4, Timeouts).
const (
	DeliveryTimeout    = deliveryTimeout // for a Send, a Commit or a Fence
	TransactionTimeout = txnTimeout      // for a whole transaction, kept by the broker
)
