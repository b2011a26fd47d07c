package tidemark

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The rows of the table, from the top.

// findingOut is what is asked to find out where things are and how they are set.
func findingOut() []injected {
	return slices.Concat(
		every(injected{key: kmsg.FindCoordinator, class: "here", txn: true, count: 3, start: true},
			kerr.CoordinatorNotAvailable, kerr.CoordinatorLoadInProgress),
		every(injected{key: kmsg.FindCoordinator, class: "transient", txn: true, count: -1, again: true, end: waits, says: "UNKNOWN_SERVER_ERROR"}, kerr.UnknownServerError),
		every(injected{key: kmsg.FindCoordinator, class: "permanent", txn: true, again: true, end: stops, says: "grant WRITE and DESCRIBE on the transactional id"},
			kerr.TransactionalIDAuthorizationFailed),
		every(injected{key: kmsg.FindCoordinator, class: "permanent", start: true, count: -1, end: stops, says: "grant READ on the group"}, kerr.GroupAuthorizationFailed),
		[]injected{{key: kmsg.FindCoordinator, class: "unknown outcome", cut: true, again: true, end: recovers}},

		every(injected{key: kmsg.Metadata, class: "here", topic: "changelog", count: 3, again: true, end: recovers}, kerr.LeaderNotAvailable),
		every(injected{key: kmsg.Metadata, class: "here", topic: "changelog", count: 2}, kerr.LeaderNotAvailable), // asked by the look at the topics
		every(injected{key: kmsg.Metadata, class: "transient", topic: "dead", count: -1, start: true, end: waits, says: "describe topic dead"}, kerr.UnknownServerError),
		every(injected{key: kmsg.Metadata, class: "permanent", topic: "in", count: -1, again: true, end: stops, says: "grant READ, WRITE, DESCRIBE and DESCRIBE_CONFIGS"},
			kerr.TopicAuthorizationFailed),
		[]injected{{key: kmsg.Metadata, class: "unknown outcome", cut: true, again: true, end: recovers}},

		every(injected{key: kmsg.DescribeConfigs, class: "transient", topic: "dead", count: -1, start: true, end: waits, says: "ask for topic settings"}, kerr.UnknownServerError),
		every(injected{key: kmsg.DescribeConfigs, class: "permanent", topic: "changelog", count: -1, end: stops, says: "ask for topic settings"},
			kerr.TopicAuthorizationFailed),
		[]injected{{key: kmsg.DescribeConfigs, class: "unknown outcome", cut: true, start: true}},
		[]injected{{key: kmsg.ApiVersions, class: "unknown outcome", cut: true, again: true, end: recovers}},
	)
}

// fencing is InitProducerID.
func fencing() []injected {
	row := injected{key: kmsg.InitProducerID, again: true}
	return slices.Concat(
		like(row, "here", recovers, 3, kerr.ConcurrentTransactions, kerr.NotCoordinator, kerr.CoordinatorLoadInProgress, kerr.CoordinatorNotAvailable),
		every(injected{key: kmsg.InitProducerID, class: "transient", again: true, count: -1, end: waits, says: "fence changelog-0: UNKNOWN_SERVER_ERROR"}, kerr.UnknownServerError),
		like(row, "fenced", recovers, 1, kerr.ProducerFenced, kerr.InvalidProducerEpoch, kerr.InvalidProducerIDMapping, kerr.InvalidTxnState),
		like(row, "permanent", stops, 1, kerr.TransactionalIDAuthorizationFailed, kerr.InvalidTransactionTimeout, kerr.ClusterAuthorizationFailed, kerr.UnsupportedVersion),
		[]injected{{key: kmsg.InitProducerID, class: "unknown outcome", cut: true, again: true, end: recovers}},
	)
}

// like makes one row of many codes.
func like(row injected, class string, end ending, count int, codes ...*kerr.Error) []injected {
	row.class, row.end, row.count = class, end, count
	return every(row, codes...)
}

// producing is Produce and, for old brokers, AddPartitionsToTxn.
func producing() (all []injected) {
	all = []injected{{key: kmsg.Produce, class: "unknown outcome", cut: true}, {key: kmsg.AddPartitionsToTxn, class: "unknown outcome", cut: true, end: recovers}}
	row := injected{key: kmsg.Produce, topic: "changelog", says: "changelog/0"}
	all = slices.Concat(all,
		like(row, "here", passes, 3, kerr.NotLeaderForPartition, kerr.LeaderNotAvailable, kerr.NotEnoughReplicas, kerr.NotEnoughReplicasAfterAppend,
			kerr.RequestTimedOut, kerr.KafkaStorageError, kerr.ConcurrentTransactions, kerr.NotCoordinator),
		like(row, "transient", recovers, 1, kerr.UnknownServerError, kerr.OutOfOrderSequenceNumber, kerr.UnknownProducerID, kerr.TransactionAbortable),
		like(row, "fenced", recovers, 1, kerr.ProducerFenced, kerr.InvalidProducerEpoch, kerr.InvalidTxnState, kerr.InvalidProducerIDMapping),
		like(row, "permanent", stops, 1, kerr.TopicAuthorizationFailed, kerr.TransactionalIDAuthorizationFailed, kerr.UnsupportedForMessageFormat, kerr.PolicyViolation),
		like(row, "refused record", stops, 1, kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.InvalidTimestamp, kerr.InvalidRecord),
	)
	row.topic, row.says = "out", "out/0" // one of each: the code does not know what a topic is for
	all = slices.Concat(all, like(row, "here", passes, 3, kerr.NotEnoughReplicas), like(row, "transient", recovers, 1, kerr.UnknownServerError),
		like(row, "fenced", recovers, 1, kerr.InvalidTxnState), like(row, "permanent", stops, 1, kerr.TopicAuthorizationFailed),
		like(row, "refused record", stops, 1, kerr.MessageTooLarge))
	row = injected{key: kmsg.AddPartitionsToTxn}
	return slices.Concat(all,
		like(row, "here", passes, 3, kerr.ConcurrentTransactions, kerr.NotCoordinator, kerr.CoordinatorLoadInProgress),
		like(row, "transient", recovers, 1, kerr.UnknownServerError),
		like(row, "fenced", recovers, 1, kerr.ProducerFenced, kerr.InvalidProducerEpoch, kerr.InvalidTxnState),
		like(row, "permanent", stops, 1, kerr.TopicAuthorizationFailed, kerr.TransactionalIDAuthorizationFailed),
	)
}

// committing is EndTxn.
func committing() []injected {
	row := injected{key: kmsg.EndTxn, says: "end transaction changelog-0"}
	return slices.Concat(
		like(row, "here", passes, 3, kerr.ConcurrentTransactions, kerr.NotCoordinator, kerr.CoordinatorLoadInProgress, kerr.CoordinatorNotAvailable),
		like(row, "transient", recovers, 1, kerr.UnknownServerError, kerr.RequestTimedOut, kerr.TransactionAbortable),
		like(row, "fenced", recovers, 1, kerr.ProducerFenced, kerr.InvalidProducerEpoch, kerr.InvalidTxnState, kerr.InvalidProducerIDMapping),
		like(row, "permanent", stops, 1, kerr.TransactionalIDAuthorizationFailed, kerr.InvalidRequest, kerr.UnsupportedVersion),
		[]injected{{key: kmsg.EndTxn, class: "unknown outcome", cut: true}},
	)
}

// fetching is Fetch, ListOffsets and OffsetForLeaderEpoch.
func fetching() (all []injected) {
	for _, key := range []kmsg.Key{kmsg.Fetch, kmsg.ListOffsets, kmsg.OffsetForLeaderEpoch} {
		row := injected{key: key, topic: "in", again: key != kmsg.Fetch, says: "in/0"}
		ended := passes
		if row.again {
			ended = recovers
		}
		all = slices.Concat(all,
			like(row, "here", ended, 3, kerr.NotLeaderForPartition, kerr.LeaderNotAvailable, kerr.FencedLeaderEpoch, kerr.UnknownLeaderEpoch,
				kerr.KafkaStorageError, kerr.UnknownServerError, kerr.OffsetNotAvailable),
			like(row, "permanent", stops, 1, kerr.TopicAuthorizationFailed, kerr.UnsupportedVersion),
		)
		row.cut = true
		all = append(all, like(row, "unknown outcome", ended, 1, nil)...)
	}
	row := injected{key: kmsg.Fetch, topic: "changelog", again: true, says: "changelog/0"}
	return slices.Concat(all,
		like(row, "here", recovers, 3, kerr.NotLeaderForPartition, kerr.UnknownTopicID, kerr.OffsetOutOfRange), // the id is the same, the position within bounds
		like(row, "permanent", stops, 1, kerr.TopicAuthorizationFailed),
	)
}

// seated is the membership of the group.
func seated() (all []injected) {
	for _, key := range []kmsg.Key{kmsg.JoinGroup, kmsg.SyncGroup, kmsg.Heartbeat} {
		row := injected{key: key, start: key != kmsg.Heartbeat}
		lost := recovers
		if key == kmsg.Heartbeat {
			lost = rejoins
		}
		all = slices.Concat(all,
			like(row, "transient", lost, 1, kerr.UnknownServerError),
			like(row, "fenced", lost, 1, kerr.UnknownMemberID),
			like(row, "permanent", stops, -1, kerr.GroupAuthorizationFailed, kerr.InvalidGroupID, kerr.FencedInstanceID),
		)
		row.cut = true
		all = append(all, like(row, "unknown outcome", passes, 1, nil)...)
	}
	row := injected{key: kmsg.Heartbeat}
	return slices.Concat(all,
		like(row, "here", passes, 1, kerr.NotCoordinator, kerr.CoordinatorNotAvailable, kerr.CoordinatorLoadInProgress, kerr.RebalanceInProgress),
		like(row, "fenced", rejoins, 1, kerr.IllegalGeneration),
		like(injected{key: kmsg.JoinGroup, start: true}, "permanent", stops, -1, kerr.InvalidSessionTimeout, kerr.InconsistentGroupProtocol),
	)
}

// telling is the group's offset: set, and asked for at a birth.
func telling() []injected {
	set := injected{key: kmsg.OffsetCommit, topic: "in"}
	asked := injected{key: kmsg.OffsetFetch, start: true}
	leave := injected{key: kmsg.LeaveGroup, leave: true}
	return slices.Concat(
		like(set, "here", passes, 3, kerr.NotCoordinator, kerr.CoordinatorNotAvailable, kerr.CoordinatorLoadInProgress),
		like(set, "transient", passes, 3, kerr.UnknownServerError, kerr.RequestTimedOut),
		like(set, "fenced", passes, 2, kerr.IllegalGeneration, kerr.UnknownMemberID, kerr.RebalanceInProgress),
		every(injected{key: kmsg.OffsetCommit, class: "permanent", topic: "in", count: -1, end: warns, says: "OFFSET_METADATA_TOO_LARGE"}, kerr.OffsetMetadataTooLarge),
		[]injected{{key: kmsg.OffsetCommit, class: "unknown outcome", cut: true}},

		like(asked, "here", passes, 3, kerr.NotCoordinator, kerr.CoordinatorNotAvailable, kerr.CoordinatorLoadInProgress),
		like(asked, "transient", recovers, 2, kerr.UnknownServerError),
		like(asked, "permanent", stops, 1, kerr.GroupAuthorizationFailed),
		[]injected{{key: kmsg.OffsetFetch, class: "unknown outcome", cut: true, start: true}},

		like(leave, "here", passes, 2, kerr.NotCoordinator, kerr.CoordinatorLoadInProgress),
		every(injected{key: kmsg.LeaveGroup, class: "transient", leave: true, end: warns, says: "seat in the group not given up"}, kerr.UnknownServerError),
		like(leave, "fenced", passes, 1, kerr.UnknownMemberID),
		every(injected{key: kmsg.LeaveGroup, class: "permanent", leave: true, end: warns, says: "seat in the group not given up"}, kerr.GroupAuthorizationFailed),
		[]injected{{key: kmsg.LeaveGroup, class: "unknown outcome", cut: true, leave: true}},
	)
}

// making is CreateTopics.
func making() []injected {
	row := injected{key: kmsg.CreateTopics, topic: "changelog", start: true, says: "create topic changelog"}
	return slices.Concat(
		like(row, "here", passes, 1, kerr.NotController),
		like(row, "transient", recovers, 2, kerr.UnknownServerError),
		like(row, "permanent", stops, 1, kerr.TopicAuthorizationFailed, kerr.PolicyViolation, kerr.InvalidReplicationFactor),
		[]injected{{key: kmsg.CreateTopics, class: "unknown outcome", cut: true, start: true, end: recovers}},
	)
}
