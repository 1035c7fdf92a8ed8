// Reads topics with Pulsar's Go client, for tests that must not trust our own reader. One JSON command a line on standard
// input: {topic, count, shared?: bool, privateKeys?: {name: file}, avro?, json?: definition}; the answer is `count` lines of
// messages (all there are for a count of -1) and one {"end": n}, or one {"error": "..."}. Argument: the service URL.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/apache/pulsar-client-go/pulsar"
	"github.com/apache/pulsar-client-go/pulsar/crypto"
	"github.com/apache/pulsar-client-go/pulsar/log"
)

type command struct {
	Topic       string            `json:"topic"`
	Count       int               `json:"count"`
	Shared      bool              `json:"shared"`
	PrivateKeys map[string]string `json:"privateKeys"`
	Avro        string            `json:"avro"`
	JSON        string            `json:"json"`
}

type message struct {
	Payload      []byte            `json:"payload"`
	Key          string            `json:"key"`
	OrderingKey  string            `json:"orderingKey"`
	Properties   map[string]string `json:"properties"`
	EventTime    int64             `json:"eventTime"`
	PublishTime  int64             `json:"publishTime"`
	ReceivedAt   int64             `json:"receivedAt"`
	ProducerName string            `json:"producerName"`
	LedgerID     int64             `json:"ledgerId"`
	EntryID      int64             `json:"entryId"`
	Partition    int32             `json:"partition"`
	BatchIndex   int32             `json:"batchIndex"`
	BatchSize    int32             `json:"batchSize"`
	Value        any               `json:"value,omitempty"`
}

type keyReader struct{ files map[string]string }

func (r keyReader) PublicKey(name string, _ map[string]string) (*crypto.EncryptionKeyInfo, error) {
	return nil, fmt.Errorf("a reader needs no public key, not %s", name)
}

func (r keyReader) PrivateKey(name string, metadata map[string]string) (*crypto.EncryptionKeyInfo, error) {
	key, err := os.ReadFile(r.files[name])
	if err != nil {
		return nil, err
	}
	return crypto.NewEncryptionKeyInfo(name, key, metadata), nil
}

func main() {
	quiet := log.NewLoggerWithSlog(slog.New(slog.NewTextHandler(io.Discard, nil)))
	client, err := pulsar.NewClient(pulsar.ClientOptions{URL: os.Args[1], Logger: quiet})
	if err != nil {
		emit(map[string]any{"error": err.Error()})
		os.Exit(1)
	}
	defer client.Close()
	emit(map[string]any{"ready": true})
	input := bufio.NewScanner(os.Stdin)
	input.Buffer(make([]byte, 1<<20), 1<<20)
	for input.Scan() {
		var next command
		if err := json.Unmarshal(input.Bytes(), &next); err == nil {
			err = read(client, next)
			if err == nil {
				continue
			}
			emit(map[string]any{"error": err.Error()})
		} else {
			emit(map[string]any{"error": err.Error()})
		}
	}
}

func read(client pulsar.Client, next command) error {
	options := pulsar.ConsumerOptions{
		Topic:                       next.Topic,
		SubscriptionName:            fmt.Sprintf("cross-go-%d", time.Now().UnixNano()),
		SubscriptionInitialPosition: pulsar.SubscriptionPositionEarliest,
	}
	if next.Shared {
		options.Type = pulsar.Shared
	}
	if len(next.PrivateKeys) > 0 {
		options.Decryption = &pulsar.MessageDecryptionInfo{
			KeyReader:                   keyReader{next.PrivateKeys},
			ConsumerCryptoFailureAction: crypto.ConsumerCryptoFailureActionFail,
		}
	}
	if next.Avro != "" {
		options.Schema = pulsar.NewAvroSchema(next.Avro, nil)
	}
	if next.JSON != "" {
		options.Schema = pulsar.NewJSONSchema(next.JSON, nil)
	}
	consumer, err := client.Subscribe(options)
	if err != nil {
		return err
	}
	defer consumer.Close()
	found := 0
	wait := 20 * time.Second
	for ; found != next.Count; found++ {
		if next.Count < 0 && found > 0 {
			wait = 2 * time.Second
		}
		received, err := receive(consumer, wait)
		if err != nil {
			break
		}
		described, err := describe(received, options.Schema != nil)
		if err != nil {
			return err
		}
		emit(described)
	}
	more := false
	if found == next.Count {
		_, err := receive(consumer, 300*time.Millisecond)
		more = err == nil
	}
	emit(map[string]any{"end": found, "more": more})
	return nil
}

func receive(consumer pulsar.Consumer, timeout time.Duration) (pulsar.Message, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return consumer.Receive(ctx)
}

func describe(received pulsar.Message, withSchema bool) (message, error) {
	id := received.ID()
	out := message{
		Payload:      received.Payload(),
		Key:          received.Key(),
		OrderingKey:  received.OrderingKey(),
		Properties:   received.Properties(),
		EventTime:    millis(received.EventTime()),
		PublishTime:  millis(received.PublishTime()),
		ReceivedAt:   time.Now().UnixMilli(),
		ProducerName: received.ProducerName(),
		LedgerID:     id.LedgerID(),
		EntryID:      id.EntryID(),
		Partition:    id.PartitionIdx(),
		BatchIndex:   id.BatchIdx(),
		BatchSize:    id.BatchSize(),
	}
	if withSchema {
		value := map[string]any{}
		if err := received.GetSchemaValue(&value); err != nil {
			return out, err
		}
		out.Value = value
	}
	return out, nil
}

func millis(t time.Time) int64 {
	if t.IsZero() || t.Unix() <= 0 {
		return 0
	}
	return t.UnixMilli()
}

func emit(line any) {
	text, err := json.Marshal(line)
	if err != nil {
		panic(err)
	}
	fmt.Println("cross:" + string(text))
}
