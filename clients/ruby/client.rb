# Carries out clients/operations.json by Ruby's mysql2 and prints one line an operation. See ../README.md.
require "digest"
require "json"
require "mysql2"
require "bigdecimal"

def given(name) = ENV.fetch("CLIENT_#{name}")

PREPARED = given("PROTOCOL") == "prepared"

def value(text)
  kind, rest = text.split(":", 2)
  case kind
  when "int", "uint" then Integer(rest)
  when "float" then Float(rest)
  when "decimal" then BigDecimal(rest)
  when "bytes" then [rest].pack("H*")
  when "null" then nil
  when "bool" then rest == "true"
  else rest
  end
end

def shown(told)
  text = (told.is_a?(String) ? told : told.inspect).gsub("\n", "\\n")
  text.size <= 1500 ? text : "#{text.size} characters, #{Digest::MD5.hexdigest(text)}"
end

def filled(part)
  return part.map { |one| filled(one) } if part.is_a?(Array)
  part.is_a?(String) ? part.gsub(/\$(SCHEMA|OTHER|FILE)/, "$SCHEMA" => given("SCHEMA"), "$OTHER" => "#{given("SCHEMA")}_other", "$FILE" => given("FILE")) : part
end

class Client
  def connect(**more)
    options = { host: given("HOST"), port: Integer(given("PORT")), username: given("USER"), password: given("PASSWORD"), database: given("SCHEMA"),
                encoding: "utf8mb4", local_infile: true, flags: Mysql2::Client::MULTI_STATEMENTS, read_timeout: 60, as: :array, connect_attrs: { app: "clients" } }
    options.merge!(sslca: given("AUTHORITY"), ssl_mode: :required) if given("TLS") == "on"
    Mysql2::Client.new(**options, **more)
  end

  def new
    @link&.close
    @link = connect
    "ok"
  end

  def compressed
    @link&.close
    @link = connect(flags: Mysql2::Client::MULTI_STATEMENTS | Mysql2::Client::COMPRESS)
    "ok"
  end

  def server = @link.server_info

  def read(result) = result ? [result.fields, result.to_a] : [@link.affected_rows, @link.last_id, @link.warning_count]

  def query(sql) = read(@link.query(sql))

  def multi(sql)
    told = [read(@link.query(sql))]
    told << read(@link.store_result) while @link.next_result
    told
  end

  # Without parameters of its own in text, these are put into it.
  def execute(sql, *parts)
    values = parts.map { |part| value(part) }
    unless PREPARED
      quoted = values.map { |one| one.nil? ? "NULL" : one.is_a?(String) ? "'#{@link.escape(one)}'" : one.is_a?(BigDecimal) ? one.to_s("F") : one.to_s }
      return query(sql.gsub("?") { quoted.shift })
    end
    statement = @link.prepare(sql)
    result = statement.execute(*values, as: :array)
    result ? [result.fields, result.to_a] : [statement.affected_rows, statement.last_id]
  ensure
    statement&.close
  end

  def repeat(sql, *rows)
    return rows.map { |row| execute(sql, *row) } unless PREPARED
    statement = @link.prepare(sql)
    rows.map { |row| statement.execute(*row.map { |part| value(part) }, as: :array).to_a }
  ensure
    # One that the collector closes later says so in the middle of another answer.
    statement&.close
  end

  def batch(sql, *rows)
    rows.each { |row| execute(sql, *row) }
    rows.size
  end

  def stream(sql) = @link.query(sql, stream: true, cache_rows: false).to_a

  def begin = query("BEGIN")
  def commit = query("COMMIT")
  def rollback = query("ROLLBACK")
  def isolation(level) = query("SET SESSION TRANSACTION ISOLATION LEVEL #{level}")
  def ping = @link.ping
  def schema(name) = @link.select_db(name)

  def infile(sql, content)
    File.write(given("FILE"), content)
    query(sql)
  end

  def large(size) = execute("SELECT LENGTH(?), SHA2(?, 256)", "str:#{"z" * size}", "str:#{"z" * size}")

  def killed(sql)
    id = @link.query("SELECT CONNECTION_ID()").first[0]
    other = connect
    over = false
    killer = Thread.new do
      until over
        sleep 0.3
        begin
          other.query("KILL QUERY #{id}") unless over
        rescue Mysql2::Error
          nil
        end
      end
    end
    query(sql)
  ensure
    over = true
    killer&.join
    other&.close
  end

  def pause(milliseconds)
    sleep(milliseconds / 1000.0)
    "ok"
  end

  def writes(count, milliseconds)
    count.times do |n|
      execute("INSERT INTO ledger VALUES (?, ?)", "int:#{n}", "int:#{3 * n}")
      pause(milliseconds)
    end
    "ok"
  end

  def transfers(count, milliseconds)
    count.times do
      self.begin
      execute("UPDATE account SET v = v - ? WHERE id = 1", "int:7")
      pause(milliseconds)
      execute("UPDATE account SET v = v + ? WHERE id = 2", "int:7")
      commit
    end
    "ok"
  end
end

$stdout.sync = true
operations = JSON.parse(File.read(given("OPERATIONS"), encoding: "UTF-8"))
client = Client.new
client.new
till = Process.clock_gettime(Process::CLOCK_MONOTONIC) + Float(given("SECONDS"))
round = 0
while round.zero? || Process.clock_gettime(Process::CLOCK_MONOTONIC) < till
  operations.each do |operation|
    next if (operation["on"] || given("SERVER")) != given("SERVER") || (round.positive? && operation["once"])
    told = operation["steps"].map do |word, *parts|
      Client.method_defined?(word, false) ? shown(client.public_send(word, *filled(parts))) : "no such call"
    rescue Mysql2::Error => error
      shown("error #{error.errno} #{error.sql_state} #{error.message}")
    rescue StandardError => error
      shown("error #{error.class} #{error.message}")
    end
    puts "#{operation["name"]}: #{told.join(" | ")}"
  end
  round += 1
end
