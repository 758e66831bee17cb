# Carries out clients/operations.json by DBD::mysql or DBD::MariaDB and prints one line an operation: client.pl mysql | MariaDB. See ../README.md.
use strict;
use warnings;
use DBI;
use Digest::MD5 qw(md5_hex);
use Encode qw(encode_utf8);
use JSON::PP;
use Time::HiRes qw(sleep time);

my $driver = $ARGV[0];
my $prefix = lc $driver;
my $link;
binmode STDOUT, ":raw";

sub given { $ENV{"CLIENT_$_[0]"} }

sub connected {
    my %more = @_;
    my $place = "DBI:$driver:database=" . given("SCHEMA") . ";host=" . given("HOST") . ";port=" . given("PORT") . ";${prefix}_local_infile=1";
    $place .= ";${prefix}_compression=1" if $more{compressed};
    $place .= ";${prefix}_ssl=1;${prefix}_ssl_ca_file=" . given("AUTHORITY") . ";${prefix}_ssl_optional=1" if given("TLS") eq "on";
    my $prepared = given("PROTOCOL") eq "prepared" ? 1 : 0;
    my %options = (RaiseError => 1, PrintError => 0, PrintWarn => 0, AutoCommit => 1, "${prefix}_server_prepare" => $prepared, "${prefix}_server_prepare_disable_fallback" => $prepared);
    $options{mysql_enable_utf8mb4} = 1 if $driver eq "mysql";
    return DBI->connect($place, given("USER"), given("PASSWORD"), \%options);
}

sub value {
    my ($kind, $rest) = split /:/, $_[0], 2;
    return undef if $kind eq "null";
    return pack("H*", $rest) if $kind eq "bytes";
    return $rest eq "true" ? 1 : 0 if $kind eq "bool";
    return $rest;
}

sub shown {
    my $text = ref $_[0] ? JSON::PP->new->canonical->allow_nonref->encode($_[0]) : $_[0];
    $text =~ s/\n/\\n/g;
    $text = encode_utf8($text);
    return length $text <= 1500 ? $text : length($text) . " bytes, " . md5_hex($text);
}

sub filled {
    my ($part) = @_;
    return [map { filled($_) } @$part] if ref $part;
    my %names = ('$SCHEMA' => given("SCHEMA"), '$OTHER' => given("SCHEMA") . "_other", '$FILE' => given("FILE"));
    $part =~ s/(\$SCHEMA|\$OTHER|\$FILE)/$names{$1}/g;
    return $part;
}

sub results {
    my ($statement) = @_;
    my @told;
    do {
        my $fields = $statement->{NUM_OF_FIELDS} || 0;
        push @told, $fields ? [$statement->{NAME}, $statement->{TYPE}, $statement->fetchall_arrayref] : [$statement->rows, $statement->{"${prefix}_insertid"}];
    } while ($statement->more_results);
    push @told, $statement->{"${prefix}_warning_count"} if $driver eq "MariaDB";
    return \@told;
}

sub execute {
    my ($sql, @parts) = @_;
    my $statement = $link->prepare($sql);
    my $n = 0;
    for my $part (@parts) {
        my $type = $part =~ /^int:/ ? DBI::SQL_BIGINT() : $part =~ /^bytes:/ ? DBI::SQL_BLOB() : $part =~ /^float:/ ? DBI::SQL_DOUBLE() : DBI::SQL_VARCHAR();
        $statement->bind_param(++$n, value($part), $type);
    }
    $statement->execute;
    return results($statement);
}

sub repeated {
    my ($sql, @rows) = @_;
    my $statement = $link->prepare($sql);
    return [map { $statement->execute(map { value($_) } @$_); $statement->fetchall_arrayref } @rows];
}

sub batch {
    my ($sql, @rows) = @_;
    my $statement = $link->prepare($sql);
    $statement->execute(map { value($_) } @$_) for @rows;
    return scalar @rows;
}

sub streamed {
    my ($sql) = @_;
    my $statement = $link->prepare($sql, { "${prefix}_use_result" => 1 });
    $statement->execute;
    my @rows;
    while (my @row = $statement->fetchrow_array) { push @rows, [@row] }
    return \@rows;
}

sub text_of { my ($sql) = @_; my $statement = $link->prepare($sql, { "${prefix}_server_prepare" => 0 }); $statement->execute; return results($statement) }

my %calls = (
    new => sub { $link->disconnect if $link; undef $link; $link = connected(); "ok" },
    compressed => sub { $link->disconnect if $link; undef $link; $link = connected(compressed => 1); "ok" },
    server => sub { [$link->{"${prefix}_serverinfo"}, $link->{"${prefix}_serverversion"}, $link->{"${prefix}_protoinfo"}] },
    query => \&text_of,
    execute => \&execute,
    repeat => \&repeated,
    batch => \&batch,
    stream => \&streamed,
    begin => sub { $link->begin_work; "ok" },
    commit => sub { $link->commit; "ok" },
    rollback => sub { $link->rollback; "ok" },
    isolation => sub { text_of("SET SESSION TRANSACTION ISOLATION LEVEL $_[0]") },
    ping => sub { $link->ping ? "ok" : "no" },
    infile => sub { my ($sql, $content) = @_; open my $file, ">:utf8", given("FILE") or die $!; print $file $content; close $file; text_of($sql) },
    large => sub { my $z = "str:" . "z" x $_[0]; execute("SELECT LENGTH(?), SHA2(?, 256)", $z, $z) },
    pause => sub { sleep($_[0] / 1000); "ok" },
    writes => sub { for my $n (0 .. $_[0] - 1) { execute("INSERT INTO ledger VALUES (?, ?)", "int:$n", "int:" . 3 * $n); sleep($_[1] / 1000) } "ok" },
    transfers => sub {
        for (1 .. $_[0]) {
            $link->begin_work;
            execute("UPDATE account SET v = v - ? WHERE id = 1", "int:7");
            sleep($_[1] / 1000);
            execute("UPDATE account SET v = v + ? WHERE id = 2", "int:7");
            $link->commit;
        }
        "ok";
    },
);

open my $file, "<:raw", given("OPERATIONS") or die $!;
my $operations = JSON::PP->new->utf8->decode(join "", <$file>);
my $until = time + given("SECONDS");
$| = 1;
$calls{new}->();
for (my $round = 0; $round == 0 || time < $until; $round++) {
    for my $operation (@$operations) {
        next if ($operation->{on} // given("SERVER")) ne given("SERVER") || $round && $operation->{once};
        my @told;
        for my $step (@{ $operation->{steps} }) {
            my ($word, @parts) = @$step;
            my $call = $calls{$word};
            my $outcome = eval { $call ? $call->(map { filled($_) } @parts) : "no such call" };
            $outcome = "error " . ($link && $link->err // "") . " " . ($link && $link->state // "") . " " . ($@ =~ s/ at \S+ line \d+\.?\n?//gr) if $@;
            push @told, shown($outcome);
        }
        print encode_utf8($operation->{name}) . ": " . join(" | ", @told) . "\n";
    }
}
$link->disconnect if $link;
