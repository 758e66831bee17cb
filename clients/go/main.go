// Carries out clients/operations.json by go-sql-driver and prints one line an operation. See ../README.md.
package main

import (
	"context"
	"crypto/md5"
	"crypto/tls"
	"crypto/x509"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"
)

var errNoSuchCall = errors.New("no such call")

func given(name string) string { return os.Getenv("CLIENT_" + name) }

type operation struct {
	Name  string
	On    string
	Once  bool
	Steps [][]any
}

type client struct {
	db         *sql.DB
	connection *sql.Conn
	compress   bool
}

func config(compress bool) *mysql.Config {
	c := mysql.NewConfig()
	c.User, c.Passwd, c.Net, c.DBName = given("USER"), given("PASSWORD"), "tcp", given("SCHEMA")
	c.Addr = given("HOST") + ":" + given("PORT")
	c.InterpolateParams = given("PROTOCOL") == "text"
	c.MultiStatements, c.AllowAllFiles = true, true
	c.ConnectionAttributes = "app:clients"
	if given("TLS") == "on" {
		pem, err := os.ReadFile(given("AUTHORITY"))
		if err != nil {
			panic(err)
		}
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(pem)
		c.TLS = &tls.Config{RootCAs: pool, ServerName: given("HOST")}
	}
	if compress {
		if err := c.Apply(mysql.EnableCompression(true)); err != nil {
			panic(err)
		}
	}
	return c
}

func open(compress bool) *sql.DB {
	connector, err := mysql.NewConnector(config(compress))
	if err != nil {
		panic(err)
	}
	return sql.OpenDB(connector)
}

// new gives the connection back and takes one of a new pool.
func (c *client) renew(ctx context.Context) (string, error) {
	if c.connection != nil {
		c.connection.Close()
		c.db.Close()
	}
	c.db = open(c.compress)
	connection, err := c.db.Conn(ctx)
	c.connection = connection
	return "ok", err
}

func shown(text string) string {
	text = strings.ReplaceAll(text, "\n", "\\n")
	if len(text) <= 1500 {
		return text
	}
	sum := md5.Sum([]byte(text))
	return fmt.Sprintf("%d bytes, %s", len(text), hex.EncodeToString(sum[:]))
}

func value(text string) any {
	kind, rest, _ := strings.Cut(text, ":")
	switch kind {
	case "int":
		n, _ := strconv.ParseInt(rest, 10, 64)
		return n
	case "uint":
		n, _ := strconv.ParseUint(rest, 10, 64)
		return n
	case "float":
		n, _ := strconv.ParseFloat(rest, 64)
		return n
	case "bytes":
		b, _ := hex.DecodeString(rest)
		return b
	case "null":
		return nil
	case "bool":
		return rest == "true"
	case "datetime":
		t, _ := time.Parse("2006-01-02 15:04:05.000000", rest)
		return t
	case "date":
		t, _ := time.Parse("2006-01-02", rest)
		return t
	}
	return rest
}

func values(parts []any) []any {
	found := []any{}
	for _, part := range parts {
		found = append(found, value(part.(string)))
	}
	return found
}

func rowsShown(rows *sql.Rows) (string, error) {
	defer rows.Close()
	var out strings.Builder
	for {
		types, err := rows.ColumnTypes()
		if err != nil {
			return "", err
		}
		for _, one := range types {
			fmt.Fprintf(&out, "%s %s,", one.Name(), one.DatabaseTypeName())
		}
		for rows.Next() {
			row := make([]any, len(types))
			places := make([]any, len(types))
			for i := range row {
				places[i] = &row[i]
			}
			if err := rows.Scan(places...); err != nil {
				return "", err
			}
			out.WriteString("(")
			for _, one := range row {
				if bytes, is := one.([]byte); is {
					fmt.Fprintf(&out, "%q,", bytes)
				} else {
					fmt.Fprintf(&out, "%T %v,", one, one)
				}
			}
			out.WriteString(")")
		}
		if err := rows.Err(); err != nil {
			return "", err
		}
		if !rows.NextResultSet() {
			return out.String(), rows.Err()
		}
		out.WriteString(" next ")
	}
}

// ask runs a statement whose answer has rows, or one whose answer has counts.
func (c *client) ask(ctx context.Context, text string, parameters ...any) (string, error) {
	word := strings.ToUpper(strings.SplitN(strings.TrimSpace(text), " ", 2)[0])
	if word == "SELECT" || word == "SHOW" || word == "CALL" || strings.Contains(text, "RETURNING") || strings.Contains(text, "; SELECT") {
		rows, err := c.connection.QueryContext(ctx, text, parameters...)
		if err != nil {
			return "", err
		}
		return rowsShown(rows)
	}
	result, err := c.connection.ExecContext(ctx, text, parameters...)
	if err != nil {
		return "", err
	}
	affected, _ := result.RowsAffected()
	id, _ := result.LastInsertId()
	return fmt.Sprintf("affected %d, id %d", affected, id), nil
}

func (c *client) repeat(ctx context.Context, text string, rows []any) (string, error) {
	statement, err := c.connection.PrepareContext(ctx, text)
	if err != nil {
		return "", err
	}
	defer statement.Close()
	var out strings.Builder
	for _, row := range rows {
		found, err := statement.QueryContext(ctx, values(row.([]any))...)
		if err != nil {
			return out.String(), err
		}
		text, err := rowsShown(found)
		if err != nil {
			return out.String(), err
		}
		out.WriteString(text)
	}
	return out.String(), nil
}

func (c *client) batch(ctx context.Context, text string, rows []any) (string, error) {
	statement, err := c.connection.PrepareContext(ctx, text)
	if err != nil {
		return "", err
	}
	defer statement.Close()
	for n, row := range rows {
		if _, err := statement.ExecContext(ctx, values(row.([]any))...); err != nil {
			return "", fmt.Errorf("row %d: %w", n, err)
		}
	}
	return fmt.Sprint(len(rows)), nil
}

func (c *client) killed(ctx context.Context, text string) (string, error) {
	var id int64
	if err := c.connection.QueryRowContext(ctx, "SELECT CONNECTION_ID()").Scan(&id); err != nil {
		return "", err
	}
	over := make(chan struct{})
	var killer sync.WaitGroup
	killer.Add(1)
	go func() {
		defer killer.Done()
		for {
			select {
			case <-over:
				return
			case <-time.After(300 * time.Millisecond):
				c.db.ExecContext(ctx, fmt.Sprintf("KILL QUERY %d", id))
			}
		}
	}()
	told, err := c.ask(ctx, text)
	close(over)
	killer.Wait()
	return told, err
}

func (c *client) pool(ctx context.Context, count int, text string) (string, error) {
	db := open(false)
	defer db.Close()
	db.SetMaxOpenConns(count)
	told := make([]string, 3*count)
	var all sync.WaitGroup
	for n := range told {
		all.Add(1)
		go func(n int) {
			defer all.Done()
			var found int
			err := db.QueryRowContext(ctx, text).Scan(&found)
			told[n] = fmt.Sprint(found, err)
		}(n)
	}
	all.Wait()
	return strings.Join(told, ","), nil
}

func (c *client) transfers(ctx context.Context, count int, pause time.Duration) (string, error) {
	for n := 0; n < count; n++ {
		transaction, err := c.connection.BeginTx(ctx, nil)
		if err != nil {
			return "", err
		}
		if _, err := transaction.ExecContext(ctx, "UPDATE account SET v = v - ? WHERE id = 1", 7); err != nil {
			transaction.Rollback()
			return "", err
		}
		time.Sleep(pause)
		if _, err := transaction.ExecContext(ctx, "UPDATE account SET v = v + ? WHERE id = 2", 7); err != nil {
			transaction.Rollback()
			return "", err
		}
		if err := transaction.Commit(); err != nil {
			return "", err
		}
	}
	return "ok", nil
}

func (c *client) writes(ctx context.Context, count int, pause time.Duration) (string, error) {
	for n := 0; n < count; n++ {
		if _, err := c.connection.ExecContext(ctx, "INSERT INTO ledger VALUES (?, ?)", n, 3*n); err != nil {
			return "", err
		}
		time.Sleep(pause)
	}
	return "ok", nil
}

func filled(text string) string {
	return strings.NewReplacer("$SCHEMA", given("SCHEMA"), "$OTHER", given("SCHEMA")+"_other", "$FILE", given("FILE")).Replace(text)
}

func (c *client) step(ctx context.Context, step []any) (string, error) {
	text, number := func(n int) string { return filled(step[n].(string)) }, func(n int) int { return int(step[n].(float64)) }
	milliseconds := func(n int) time.Duration { return time.Duration(number(n)) * time.Millisecond }
	if c.connection == nil && step[0] != "new" {
		return "", errors.New("no connection")
	}
	switch step[0].(string) {
	case "new":
		c.compress = false
		return c.renew(ctx)
	case "compressed":
		c.compress = true
		return c.renew(ctx)
	case "query", "multi", "stream":
		return c.ask(ctx, text(1))
	case "execute":
		return c.ask(ctx, text(1), values(step[2:])...)
	case "repeat":
		return c.repeat(ctx, text(1), step[2:])
	case "batch":
		return c.batch(ctx, text(1), step[2:])
	case "begin":
		return c.ask(ctx, "BEGIN")
	case "commit":
		return c.ask(ctx, "COMMIT")
	case "rollback":
		return c.ask(ctx, "ROLLBACK")
	case "isolation":
		return c.ask(ctx, "SET SESSION TRANSACTION ISOLATION LEVEL "+text(1))
	case "ping":
		return "ok", c.connection.PingContext(ctx)
	case "infile":
		if err := os.WriteFile(given("FILE"), []byte(text(2)), 0o600); err != nil {
			panic(err)
		}
		return c.ask(ctx, text(1))
	case "large":
		z := strings.Repeat("z", number(1))
		return c.ask(ctx, "SELECT LENGTH(?), SHA2(?, 256)", z, z)
	case "killed":
		return c.killed(ctx, text(1))
	case "timeout":
		limited, cancel := context.WithTimeout(ctx, time.Duration(number(2))*time.Second)
		defer cancel()
		return c.ask(limited, text(1))
	case "pool":
		return c.pool(ctx, number(1), text(2))
	case "writes":
		return c.writes(ctx, number(1), milliseconds(2))
	case "transfers":
		return c.transfers(ctx, number(1), milliseconds(2))
	case "pause":
		time.Sleep(milliseconds(1))
		return "ok", nil
	}
	return "", errNoSuchCall
}

func main() {
	text, err := os.ReadFile(given("OPERATIONS"))
	if err != nil {
		panic(err)
	}
	var operations []operation
	if err := json.Unmarshal(text, &operations); err != nil {
		panic(err)
	}
	seconds, _ := strconv.ParseFloat(given("SECONDS"), 64)
	until := time.Now().Add(time.Duration(seconds * float64(time.Second)))
	mysql.SetLogger(&mysql.NopLogger{})
	ctx := context.Background()
	c := &client{}
	if _, err := c.renew(ctx); err != nil {
		fmt.Println("connect:", err)
		os.Exit(1)
	}
	for round := 0; round == 0 || time.Now().Before(until); round++ {
		for _, one := range operations {
			if (one.On != "" && one.On != given("SERVER")) || (one.Once && round > 0) {
				continue
			}
			told := []string{}
			for _, step := range one.Steps {
				outcome, err := c.step(ctx, step)
				if err != nil {
					outcome += err.Error()
				}
				told = append(told, shown(outcome))
			}
			fmt.Printf("%s: %s\n", one.Name, strings.Join(told, " | "))
		}
	}
	c.connection.Close()
	c.db.Close()
}
