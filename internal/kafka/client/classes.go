package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/tidemark-streams/tidemark/internal/kafka"
)

// rule is one line of the table of I8: what a broker's error means for the task that meets it, and why.
type rule struct {
	class kafka.Class
	why   string
}

// classes is that table. A code that is not in it is transient: what is not known is unknown, and unknown is a crash
// that recovery repairs (V5: network, coordinator, leader, in-sync and time-out errors are never counted).
var classes = map[*kerr.Error]rule{
	// The group decides, not the code: these are also what our own timed-out transaction gives (V11).
	kerr.ProducerFenced:           {kafka.ClassFenced, "a newer producer has this transactional id, or our transaction timed out"},
	kerr.InvalidProducerEpoch:     {kafka.ClassFenced, "a newer producer has this transactional id, or our transaction timed out"},
	kerr.InvalidTxnState:          {kafka.ClassFenced, "our transaction is over: fenced or timed out"},
	kerr.InvalidProducerIDMapping: {kafka.ClassFenced, "the producer id is not this transactional id's any more"},
	kerr.IllegalGeneration:        {kafka.ClassFenced, "the group has gone on without this member"},
	kerr.UnknownMemberID:          {kafka.ClassFenced, "the group has removed this member"},
	kerr.FencedMemberEpoch:        {kafka.ClassFenced, "the group has removed this member"},
	kerr.RebalanceInProgress:      {kafka.ClassFenced, "the owner of the partition is being decided"},

	// The position or the topic is not there any more: going on would skip or repeat data (R16).
	kerr.OffsetOutOfRange:    {kafka.ClassLost, "the position is outside the log"},
	kerr.UnknownTopicID:      {kafka.ClassLost, "the topic was deleted"},
	kerr.InconsistentTopicID: {kafka.ClassLost, "the topic was deleted and made again"},

	// The way in is closed, as by a certificate that has expired: kafka.TurnedAway.
	kerr.SaslAuthenticationFailed: {kafka.ClassTransient, "user or password is wrong; check kafka.sasl"},
	kerr.UnsupportedSaslMechanism: {kafka.ClassTransient, "the broker does not offer the mechanism; check kafka.sasl.mechanism"},
	kerr.IllegalSaslState:         {kafka.ClassTransient, "the broker expects another login; check kafka.sasl"},

	// The same request would be refused again.
	kerr.MessageTooLarge:                    {kafka.ClassPermanent, "the record is larger than the topic's max.message.bytes"},
	kerr.RecordListTooLarge:                 {kafka.ClassPermanent, "the batch is larger than the topic's segment"},
	kerr.InvalidTimestamp:                   {kafka.ClassPermanent, "the topic refuses the record's time"},
	kerr.InvalidRecord:                      {kafka.ClassPermanent, "the topic refuses the record, for example one without a key when compacted"},
	kerr.InvalidRequiredAcks:                {kafka.ClassPermanent, "the request is wrong"},
	kerr.InvalidRequest:                     {kafka.ClassPermanent, "the request is wrong"},
	kerr.UnsupportedVersion:                 {kafka.ClassPermanent, "the broker is too old"},
	kerr.UnsupportedForMessageFormat:        {kafka.ClassPermanent, "the topic's message format is too old"},
	kerr.UnsupportedCompressionType:         {kafka.ClassPermanent, "the topic refuses the compression"},
	kerr.InvalidTransactionTimeout:          {kafka.ClassPermanent, "the broker's transaction.max.timeout.ms is below ours"},
	kerr.InvalidTopicException:              {kafka.ClassPermanent, "the topic's name is not allowed"},
	kerr.InvalidPartitions:                  {kafka.ClassPermanent, "the partition count is not allowed"},
	kerr.InvalidReplicationFactor:           {kafka.ClassPermanent, "there are fewer brokers than replicas asked for"},
	kerr.InvalidReplicaAssignment:           {kafka.ClassPermanent, "the replica assignment is not allowed"},
	kerr.InvalidConfig:                      {kafka.ClassPermanent, "a topic setting is not allowed"},
	kerr.PolicyViolation:                    {kafka.ClassPermanent, "a policy of the cluster forbids it"},
	kerr.InvalidGroupID:                     {kafka.ClassPermanent, "the group's name is not allowed"},
	kerr.InvalidSessionTimeout:              {kafka.ClassPermanent, "the session is outside the broker's group.min/max.session.timeout.ms"},
	kerr.InconsistentGroupProtocol:          {kafka.ClassPermanent, "the group is used by another kind of program"},
	kerr.FencedInstanceID:                   {kafka.ClassPermanent, "another process joined with our instance id (R22)"},
	kerr.OffsetMetadataTooLarge:             {kafka.ClassPermanent, "the metadata is longer than offset.metadata.max.bytes"},
	kerr.InvalidCommitOffsetSize:            {kafka.ClassPermanent, "the group's offsets do not fit one record"},
	kerr.TopicAuthorizationFailed:           {kafka.ClassPermanent, "no rights on the topic"},
	kerr.GroupAuthorizationFailed:           {kafka.ClassPermanent, "no rights on the group"},
	kerr.ClusterAuthorizationFailed:         {kafka.ClassPermanent, "no rights on the cluster"},
	kerr.TransactionalIDAuthorizationFailed: {kafka.ClassPermanent, "no rights on the transactional id"},
	kerr.SecurityDisabled:                   {kafka.ClassPermanent, "the broker has no authorizer"},
}

// hints say what to do next, for the codes where a person can do something that the reason does not say yet.
var hints = map[*kerr.Error]string{
	kerr.MessageTooLarge:                    "raise the topic's max.message.bytes or keep the records smaller",
	kerr.TopicAuthorizationFailed:           "grant READ, WRITE, DESCRIBE and DESCRIBE_CONFIGS on the topic",
	kerr.GroupAuthorizationFailed:           "grant READ on the group",
	kerr.TransactionalIDAuthorizationFailed: "grant WRITE and DESCRIBE on the transactional id",
	kerr.InvalidSessionTimeout:              "lower group.min.session.timeout.ms of the brokers to 6000",
	kerr.InvalidTransactionTimeout:          "raise transaction.max.timeout.ms of the brokers to 15000",
	kerr.UnsupportedVersion:                 "tidemark needs Apache Kafka 4.0 or later with transaction.version 2",
}

// classOf is the class of whatever franz-go gave, with a hint where there is one.
func classOf(err error) (kafka.Class, string) {
	if errors.Is(err, kerr.UnknownTopicID) { // franz-go wraps it together with TRANSACTION_ABORTABLE
		return kafka.ClassLost, classes[kerr.UnknownTopicID].why
	}
	var lost *kgo.ErrDataLoss
	if errors.As(err, &lost) {
		return kafka.ClassLost, ""
	}
	var code *kerr.Error
	if errors.As(err, &code) {
		r, known := classes[code]
		if !known {
			return kafka.ClassTransient, ""
		}
		hint := r.why
		if h := hints[code]; h != "" {
			hint += "; " + h
		}
		return r.class, hint
	}
	if hint := certificateHint(err); hint != "" {
		return kafka.ClassTransient, hint
	}
	var hungUp *kgo.ErrFirstReadEOF
	if errors.As(err, &hungUp) { // or a broker that is just going down
		return kafka.ClassTransient, "check that kafka.tls and kafka.sasl are what the broker's listener demands"
	}
	return kafka.ClassTransient, ""
}

// place is where an error happened.
type place struct {
	topic     string
	partition int32
	offset    int64
}

var nowhere = place{offset: -1}

// fail makes a classed error of err. An error that has a class already keeps it.
func fail(op string, at place, err error) error {
	var classed *kafka.Error
	if errors.As(err, &classed) {
		return err
	}
	class, hint := classOf(err)
	return &kafka.Error{Class: class, Op: op, Topic: at.topic, Partition: at.partition, Offset: at.offset, Hint: hint, Away: turnedAway(err), Err: err}
}

// refuse makes a permanent error of our own.
func refuse(op string, err error, hint string) error {
	return &kafka.Error{Class: kafka.ClassPermanent, Op: op, Offset: -1, Hint: hint, Err: err}
}

// bounded gives an operation of ours its longest time; the error of an operation that hits it says so.
func bounded(ctx context.Context, limit time.Duration, what string) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, limit, fmt.Errorf("%s within %v", what, limit))
}

// late replaces a bare context error by the reason the context ended for.
func late(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && errors.Is(err, ctx.Err()) && !errors.Is(err, cause) {
		return fmt.Errorf("%w: %w", cause, err)
	}
	return err
}
