"""The codes of findings: the severity and meaning of each; docs/doctor.md has the same table."""

from collections.abc import Mapping
from typing import Final, Literal, NamedTuple


class CodeMeaning(NamedTuple):
    """The usual severity of a code, and its meaning in a few words."""

    severity: Literal["ok", "note", "warning", "error"]
    meaning: str


def _code(severity: Literal["ok", "note", "warning", "error"], meaning: str) -> CodeMeaning:
    return CodeMeaning(severity, meaning)


CODES: Final[Mapping[str, CodeMeaning]] = {
    # the configuration
    "config_missing": _code("error", "no configuration was found, or the named one is missing"),
    "config_wrong_place": _code("error", "a configuration is in a place that is not searched"),
    "config_not_trusted": _code("error", "the configuration of the working folder is not trusted, or was changed"),
    "config_shadowed": _code("warning", "the configuration of the working folder is not used: your own goes first"),
    "config_unreadable": _code("error", "the configuration cannot be read"),
    "config_encoding": _code("error", "the configuration is not UTF-8 text"),
    "config_utf16": _code("note", "the configuration is UTF-16, which other programs may not read"),
    "config_not_json": _code("error", "the configuration is not JSON"),
    "config_key_unknown": _code("warning", "the configuration has an unknown key"),
    "config_key_misplaced": _code("warning", "an option of a server is in the wrong place"),
    "config_key_repeated": _code("warning", "a key, or a server, is duplicated"),
    "config_problem": _code("error", "another problem of the configuration, in the words of `aggregator check`"),
    "config_open": _code("warning", "other users can read a configuration with secrets in it"),
    "no_servers": _code("warning", "the configuration lists no servers"),
    "timeout_milliseconds": _code("warning", "a time-out is probably in milliseconds"),
    "value_file_unreadable": _code("error", "a file with values cannot be read"),
    "value_file_open": _code("warning", "other users can read a file that holds secrets of the configuration"),
    "variable_with_line_end": _code("warning", "a variable begins or ends with white space or a line end"),
    # hosts
    "host_file_unreadable": _code("error", "the file of a host cannot be read"),
    "host_without_entry": _code("error", "the file of a host has no entry for the aggregator"),
    "host_settings_unseen": _code("note", "a host has no file that can be read, so its settings are not examined"),
    "host_entry_disabled": _code("warning", "the entry for the aggregator is switched off in the file of a host"),
    "host_entry_of_folder": _code(
        "note", "an entry of the working folder is not started, since anyone may have made it"
    ),
    "host_entry_twice": _code("warning", "the file of a host has the aggregator more than once"),
    "host_direct_server": _code("warning", "a server is in the file of a host too, so its tools are listed twice"),
    "host_config_missing": _code("error", "a host names a missing configuration"),
    "host_config_relative": _code("error", "a host names a configuration by a relative path"),
    "host_other_config": _code("warning", "a host names another configuration than the examined one"),
    "host_program_missing": _code("error", "the program that a host starts is missing"),
    "host_program_not_found": _code("error", "the program that a host starts is not on the host's `PATH`"),
    "host_agent_differs": _code("warning", "a host starts the aggregator as another agent than `--agent` names"),
    "host_variable_missing": _code("error", "a server needs a variable that is set in your shell, but not for a host"),
    "host_start_fails": _code("error", "the program that a host starts ends before it answers"),
    "host_start_hangs": _code("error", "the program that a host starts does not answer in time"),
    "host_other_version": _code("warning", "a host starts another version of the aggregator"),
    "host_refuses_names": _code("error", "a host refuses listed names"),
    "host_tool_limit": _code("warning", "a host accepts fewer tools than are listed"),
    "host_schemas_mended": _code("note", "definitions are mended for the model API behind a host"),
    "host_tool_left_out": _code("warning", "the model API behind a host takes no form of a tool"),
    # what the model sees
    "model_sees": _code("ok", "the tools that a model sees, and their cost in tokens"),
    "model_sees_nothing": _code("error", "a model sees no tool"),
    "list_costly": _code("note", "`expose: search` would save many tokens"),
    "tools_denied": _code("note", "the policy denies tools to the agent"),
    "tools_left_out": _code("warning", "tools with unusable definitions are left out"),
    "tools_renamed": _code("note", "names of tools are shortened"),
    "tools_missing": _code("warning", "a host does not get existing tools"),
    # servers
    "server_command_missing": _code("error", "the program of a server is not installed"),
    "server_command_not_found": _code(
        "error", "the program of a server is on the `PATH` of your shell, but not of a host"
    ),
    "server_not_for_host": _code("error", "a server starts in your shell, but not from a host"),
    "server_wants_capability": _code(
        "note", "a server comes up only for hosts that offer sampling, elicitation or roots"
    ),
    "server_folder_missing": _code("error", "the working folder of a server does not exist"),
    "server_module_missing": _code("error", "a server ends at once: a module or package is missing"),
    "server_node_version": _code("error", "a server needs another version of Node.js"),
    "server_docker": _code("error", "the Docker daemon does not answer"),
    "server_environment": _code("error", "a variable, folder, disk or network keeps a server from starting"),
    "server_crashes": _code("error", "a server ends at once"),
    "server_hangs": _code("error", "a server does not answer the handshake"),
    "server_faulty": _code("warning", "a server's lists or messages have faults; the valid parts are used"),
    "server_stdout": _code("warning", "a server prints to its stdout, which is for messages alone"),
    "server_unauthorized": _code("error", "a server refuses our credentials"),
    "server_login": _code("error", "a server requires a connected account"),
    "server_not_there": _code("error", "no MCP server is served under the path of the address"),
    "server_other_transport": _code("error", "a server speaks another transport than its `type` says"),
    "server_unreachable": _code("error", "nothing answers at the address of a server"),
    "server_certificate": _code("error", "the certificate of a server is not accepted, or it wants one of ours"),
    "server_tls": _code("error", "TLS with a server fails, or a file of its `tls` cannot be used"),
    "server_gateway": _code("error", "a proxy or gateway before a server refuses, or does not reach it"),
    "server_down": _code("error", "a server cannot be used for another reason"),
    "server_variable_missing": _code("warning", "a server is switched off: a variable that it needs is not set"),
    "server_off": _code("note", "a server is switched off in the configuration"),
    "server_tool_unlisted": _code("note", "a setting names a tool that its server does not list"),
    "server_no_tools": _code("warning", "a server has no tools, or all are excluded"),
    "server_name_taken": _code("error", "two servers have one name or prefix"),
    "server_twice": _code("warning", "two servers start the same program or have the same address"),
    "server_slow": _code("note", "a server takes long to start"),
    "server_grows": _code("note", "a server adds tools while it runs, and they wait for an approval"),
    "server_asks": _code("note", "a server asks hosts during calls, which decides who shares its connections"),
    "tools_reported": _code("warning", "agents reported tools of a server as broken"),
    "server_unused": _code("note", "no tool of a server was called in the last 30 days"),
    # accounts at servers
    "vault_key_open": _code("warning", "other users can read the key that encrypts tokens"),
    "vault_key_missing": _code("error", "the key that encrypts tokens is missing"),
    "vault_key_needed": _code("error", "a server has `auth`, and the database needs `auth.vault_key` for that"),
    "issuer_unreadable": _code("error", "the metadata of an issuer cannot be read, or is that of another issuer"),
    "public_url_missing": _code("warning", "users elsewhere cannot connect accounts without `http.public_url`"),
    # policies and keys
    "policy_folder_missing": _code("error", "the named folder of policies does not exist"),
    "policy_broken": _code("error", "a policy file has an error"),
    "policy_warning": _code("warning", "a rule has no effect, or names something that does not exist"),
    "policy_agent_unknown": _code("error", "the policies do not know the agent"),
    "policy_open": _code("warning", "other users can change the policies"),
    "key_expired": _code("warning", "a recently used key has expired"),
    "key_expires_soon": _code("warning", "a key expires within a week"),
    "key_agent_unknown": _code("warning", "a key stands for an agent that the policies do not know"),
    "key_refused": _code("error", "the gateway refuses the key in the file of a host"),
    "key_other_agent": _code("error", "the key in the file of a host stands for another agent"),
    # the running gateway
    "gateway_answers": _code("ok", "a gateway runs, and serves this many tools"),
    "gateway_not_running": _code("error", "no gateway answers at the address of a host"),
    "gateway_port_taken": _code("error", "another program listens at the port of the gateway"),
    "gateway_other_version": _code("warning", "the running gateway is of another version"),
    "gateway_other_config": _code("warning", "the running gateway has another configuration"),
    "gateway_config_old": _code("warning", "the running gateway could not load the current files"),
    "gateway_restart": _code("warning", "some settings need a restart of the gateway"),
    "gateway_path": _code("error", "the address in the file of a host is not that of a frontend"),
    "gateway_host_refused": _code("error", "the gateway refuses the host name in requests"),
    "gateway_origin_refused": _code("error", "the gateway refuses the page that a request comes from"),
    "gateway_proxy": _code("warning", "a proxy passes requests on without being trusted, so they need a key"),
    "gateway_tls": _code("error", "the files of `http.tls` cannot be used"),
    "gateway_tls_ends": _code("warning", "the certificate of `http.tls` has ended or is about to, or hosts refuse it"),
    "gateway_not_open": _code("error", "the gateway would not start: its address is public and no key exists"),
    "gateway_nothing_served": _code("error", "every frontend is disabled"),
    "gateway_workers": _code("note", "more workers run than there are cores"),
    "gateway_programs": _code("note", "each worker starts the servers that are programs for itself"),
    "gateway_trouble": _code("warning", "the running gateway reports a problem"),
    # the database
    "definitions_held": _code("warning", "changed definitions of a server wait for approval"),
    "database_url": _code("error", "the address of the database cannot be used"),
    "database_folder": _code("error", "the folder of the database is missing and cannot be created"),
    "database_read_only": _code("error", "the database, or its folder, cannot be written"),
    "database_damaged": _code("error", "the database is damaged, or tables are missing"),
    "database_set_aside": _code("warning", "a damaged database was set aside: its keys are lost"),
    "database_locked": _code("warning", "another program has locked the database"),
    "database_too_new": _code("error", "a newer version of the aggregator has changed the database"),
    "database_too_old": _code("error", "the database is from before the first release, and cannot be upgraded"),
    "database_old": _code("note", "the next start brings the database up to date"),
    "database_unreachable": _code("error", "the database server does not answer"),
    "database_refused": _code("error", "the database server refuses the user, the database or TLS"),
    "database_driver": _code("error", "the driver of the database server is not installed"),
    "database_open": _code("warning", "other users can read the database"),
    "disk_full": _code("error", "the disk of the database has no room left"),
    "disk_low": _code("warning", "the disk of the database has little room left"),
    "audit_chain_key": _code("error", "the audit log was begun with another `audit.chain_key`, so no row is written"),
    "audit_off": _code("note", "the audit is switched off"),
    # the machine
    "home_missing": _code("error", "there is no home folder, or `HOME` is not set, or names none"),
    "temp_missing": _code("warning", "the folder for temporary files does not exist"),
    "clock_wrong": _code("warning", "the clock is wrong"),
    "node_old": _code("warning", "Node.js is older than most servers need"),
    "versions": _code("ok", "the versions of this program, Python, the MCP library and Node.js"),
    "proxy_for_loopback": _code("warning", "programs send requests to this machine through a proxy"),
    "check_unfinished": _code("warning", "a check did not end in time"),
}
