//! The files that MHA needs on a stage: its configuration, `ssh` and `scp`, the script with which it moves the application's traffic, and a
//! module for MariaDB servers. Pure.
//!
//! MHA runs commands on the hosts by `ssh`, and a stage has no sshd: the nodes are network namespaces of one machine. The `ssh` first in
//! MHA's PATH runs the command in the node's namespace, and fails as the real one does when the node's host does not respond. It is cheaper
//! than real SSH, so MHA's figures are, if anything, too good.

use std::fmt::Write;
use std::path::Path;

use crate::stage::replication::{REPLICATION_PASSWORD, REPLICATION_USER};

/// MHA's account: it needs all privileges.
pub const USER: &str = "mha";
/// Its password.
pub const PASSWORD: &str = "mha";
/// The module that is loaded before MHA's own.
pub const MODULE: &str = "UnderstudyLabMha";
/// Ping interval, s: the shortest that MHA accepts.
const PING_INTERVAL_S: u32 = 1;

/// A server, with what these files need.
pub struct Server {
    /// `db1`.
    pub name: String,
    /// Its address, without the port.
    pub ip: String,
    /// Its port.
    pub port: u16,
    /// The server's data, its binary logs among them.
    pub datadir: String,
    /// Prefix that runs a program in the node's namespace: `ip netns exec NAMESPACE`, or nothing.
    pub enter: String,
}

/// `app1.cnf`. Each server has its own working directory, since all of them are on one machine.
pub fn conf(servers: &[Server], dir: &Path) -> String {
    let dir = dir.display();
    let mut text = format!(
        "[server default]\nuser={USER}\npassword={PASSWORD}\nrepl_user={REPLICATION_USER}\nrepl_password={REPLICATION_PASSWORD}\n\
         ssh_user=root\nmanager_workdir={dir}/work\nping_interval={PING_INTERVAL_S}\n\
         master_ip_failover_script={dir}/move_application\nmaster_ip_online_change_script={dir}/move_application\n"
    );
    for (number, server) in servers.iter().enumerate() {
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "\n[server{}]\nhostname={}\nport={}\nmaster_binlog_dir={}\nremote_workdir={dir}/{}\n",
            number + 1,
            server.ip,
            server.port,
            server.datadir,
            server.name
        );
    }
    text
}

/// `ssh [OPTION]... USER@HOST [OPTION]... COMMAND`.
pub fn ssh(servers: &[Server]) -> String {
    let mut text = format!(
        "#!/bin/bash\n# ssh, as far as MHA uses it: runs the command in the node's network namespace.\n{REACH}\
         host=\nwhile [ $# -gt 0 ]; do\n  case $1 in\n    -o) case $2 in ConnectTimeout=*) limit=${{2#*=}} ;; esac; shift 2 ;;\n    \
         -p) shift 2 ;;\n    *) [ -z \"$host\" ] || break; host=${{1#*@}}; shift ;;\n  esac\ndone\nreach \"$host\" || exit 255\ncase $host in\n"
    );
    for server in servers {
        let _ = writeln!(text, "  {}) exec {} sh -c \"$*\" ;;", server.ip, server.enter);
    }
    text + "esac\necho \"ssh: $host is none of the stage's\" >&2\nexit 255\n"
}

/// `scp [OPTION]... FROM TO`: one of them is USER@HOST:PATH, and both are on this machine.
pub fn scp() -> String {
    format!(
        "#!/bin/bash\n# scp, as far as MHA uses it: all hosts have one file system.\n{REACH}\
         while [ $# -gt 2 ]; do\n  case $1 in\n    -o | -P) shift 2 ;;\n    *) shift ;;\n  esac\ndone\n\
         for place in \"$1\" \"$2\"; do\n  case $place in\n    *@*:*) host=${{place#*@}}; reach \"${{host%%:*}}\" || exit 1 ;;\n  esac\ndone\n\
         from=${{1#*@*:}} to=${{2#*@*:}}\n# What a replica has and another lacks is sent under the path that it has here.\n\
         [ \"$from\" -ef \"$to\" ] || exec cp \"$from\" \"$to\"\n"
    )
}

/// A host that is up refuses a connection to port 22, where nothing listens; one that is down does not respond.
const REACH: &str = r#"limit=5
reach() {
  said=$(timeout "$limit" bash -c "exec 3<>/dev/tcp/$1/22" 2>&1) && return 0
  case $said in *refused*) return 0 ;; esac
  echo "ssh: connect to host $1 port 22: Connection timed out" >&2
  return 1
}
"#;

/// The script that MHA calls to move the application, in the steps of MHA's sample scripts; HAProxy replaces a moving IP address.
///
/// | called with | what it does |
/// |---|---|
/// | stop, at a switchover | no new sessions on the old master, 1.5 s for existing ones to end; read only; 0.5 s for running statements; sessions cut |
/// | stop, stopssh, at a failover | no sessions on the old master |
/// | start | makes the new master writable and sends it the sessions |
///
/// MHA does not know which server waits for semi-synchronous acknowledgements: the script turns that off on the old master, which would
/// otherwise hang as a replica. It is turned on for the new one when its replicas follow it.
pub fn move_application(servers: &[Server], haproxy_socket: &Path, app_user: &str) -> String {
    let mut names = String::new();
    for server in servers {
        let _ = writeln!(names, "    {}) echo {} ;;", server.ip, server.name);
    }
    let socket = haproxy_socket.display();
    format!(
        r#"#!/bin/bash
# MHA's master_ip_failover_script and master_ip_online_change_script.
for argument in "$@"; do
  case $argument in
    --command=*) command=${{argument#*=}} ;;
    --orig_master_ip=*) old=${{argument#*=}} ;;
    --orig_master_port=*) old_port=${{argument#*=}} ;;
    --new_master_ip=*) new=${{argument#*=}} ;;
    --new_master_port=*) new_port=${{argument#*=}} ;;
  esac
done
name() {{
  case $1 in
{names}  esac
}}
haproxy() {{ printf '%s\n' "$1" | socat -t 2 stdio 'UNIX-CONNECT:{socket}'; }}
sessions() {{ haproxy 'show stat' | awk -F , -v name="$(name "$old")" '$2 == name {{ print $5 }}'; }}
sql() {{ mariadb --no-defaults --host="$1" --port="$2" --user={USER} --password={PASSWORD} --batch --skip-column-names --execute="$3"; }}
running() {{ sql "$old" "$old_port" "SELECT COUNT(*) FROM information_schema.processlist WHERE user = '{app_user}' AND command <> 'Sleep'"; }}
wait_until_none() {{ # what, tenths of a second
  for ((tenth = 0; tenth < $2; tenth++)); do
    [ "$($1)" != 0 ] || return
    sleep 0.1
  done
}}
case $command in
  stop | stopssh)
    if [ -n "$new" ]; then
      sql "$new" "$new_port" 'SET GLOBAL read_only = 1' || exit 1
      haproxy "set server mysql/$(name "$old") state drain" > /dev/null
      wait_until_none sessions 15
      sql "$old" "$old_port" 'SET GLOBAL read_only = 1, rpl_semi_sync_master_enabled = 0' || exit 1
      wait_until_none running 5
    fi
    haproxy "set server mysql/$(name "$old") state maint; shutdown sessions server mysql/$(name "$old")" > /dev/null
    ;;
  start)
    sql "$new" "$new_port" 'SET GLOBAL read_only = 0' || exit 1
    haproxy "set server mysql/$(name "$new") state ready" > /dev/null
    ;;
esac
exit 0
"#
    )
}

/// Patches without which MHA 0.58 exits; the table has MHA's error message without each, as seen with 0.58-1.1 and MariaDB 10.11.19.
///
/// | function | without it |
/// |---|---|
/// | `MHA::NodeUtil::parse_mysql_version`, `parse_mysql_major_version` | `Error happened on checking configurations. Redundant argument in sprintf at /usr/share/perl5/MHA/NodeUtil.pm line 195.`: `10.11.19-MariaDB-0+deb12u1` has more than three numbers |
/// | `MHA::SlaveUtil::check_if_super_read_only` | `DBD::mysql::st execute failed: Unknown system variable 'super_read_only' at /usr/share/perl5/MHA/SlaveUtil.pm line 245.` |
pub fn module() -> String {
    format!(
        r"package {MODULE};
# Loaded before MHA 0.58, whose functions of these names end the program where the server is MariaDB's.
use strict;
use warnings;
use MHA::NodeUtil;
use MHA::SlaveUtil;
no warnings 'redefine';

sub numbers {{
  my ( $text, $count ) = @_;
  my @all = ( $text =~ m/(\d+)/g, 0, 0, 0 );
  return join '', map {{ sprintf '%03d', $_ }} @all[ 0 .. $count - 1 ];
}}
*MHA::NodeUtil::parse_mysql_version       = sub($) {{ numbers( $_[0], 3 ) }};
*MHA::NodeUtil::parse_mysql_major_version = sub($) {{ numbers( $_[0], 2 ) }};
# MariaDB has none, so it is not on.
*MHA::SlaveUtil::check_if_super_read_only = sub {{ return ( 0, 0 ) }};
1;
"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn servers() -> Vec<Server> {
        let server = |number: u8| Server {
            name: format!("db{number}"),
            ip: format!("10.77.0.{number}"),
            port: 3306,
            datadir: format!("/stage/db{number}/data"),
            enter: format!("ip netns exec us-lab-{number}"),
        };
        vec![server(1), server(2)]
    }

    #[test]
    fn a_file_is_copied_to_another_path_and_stands_already_under_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let script = dir.path().join("scp");
        std::fs::write(&script, scp()).unwrap();
        let path = |name: &str| dir.path().join(name).display().to_string();
        std::fs::write(path("diff"), "of a relay log").unwrap();
        for to in ["diff", "copy"] {
            let mut command = std::process::Command::new("bash");
            command.arg(&script).args(["-o", "ConnectTimeout=5", "-P", "22"]);
            let status =
                command.arg(path("diff")).arg(format!("root@127.0.0.1:{}", path(to))).status().unwrap();
            assert!(status.success(), "{to}: {status}");
            assert_eq!(std::fs::read_to_string(path(to)).unwrap(), "of a relay log");
        }
    }

    #[test]
    fn each_server_has_its_binary_logs_and_a_directory_of_its_own() {
        let text = conf(&servers(), Path::new("/run/x"));
        assert!(
            text.contains("ping_interval=1\n") && text.contains("manager_workdir=/run/x/work\n"),
            "{text}"
        );
        assert!(
            text.contains(
                "[server2]\nhostname=10.77.0.2\nport=3306\nmaster_binlog_dir=/stage/db2/data\nremote_workdir=/run/x/db2\n"
            ),
            "{text}"
        );
    }

    #[test]
    fn a_command_runs_in_the_place_of_its_node() {
        assert!(ssh(&servers()).contains("  10.77.0.2) exec ip netns exec us-lab-2 sh -c \"$*\" ;;\n"));
        let script = move_application(&servers(), Path::new("/run/x/haproxy.sock"), "sbtest");
        assert!(
            script.contains("    10.77.0.1) echo db1 ;;\n")
                && script.contains("UNIX-CONNECT:/run/x/haproxy.sock")
        );
    }
}
