// The commands of `warmroot`: each takes options and gives an exit status. Answers go to standard
// output, everything else to standard error.
#pragma once

#include "manager/cli_options.hpp"

namespace warmroot::manager {

/// All went as asked.
inline constexpr int kSuccessStatus = 0;
/// A wish could not be met in time, or a call was refused.
inline constexpr int kUnmetStatus = 1;
/// The spec, the command line, credentials or the endpoint have to change first; nothing was
/// changed.
inline constexpr int kBadInputStatus = 2;
/// Ended by a signal.
inline constexpr int kInterruptedStatus = 130;

/// Runs the command. Errors are told in one sentence: "warmroot: ...".
int run_command(const Options& options);

/// `warmroot doctor`; see cli_doctor.cpp.
int run_doctor(const Options& options);

/// `warmroot reconcile`; see cli_reconcile.cpp.
int run_reconcile(const Options& options);

/// `warmroot ami import`; see cli_import.cpp.
int run_import(const Options& options);

/// `warmroot ssh`, which becomes ssh, and `warmroot ssh-config`; see cli_ssh.cpp.
int run_ssh(const Options& options);

/// What operators order by hand; see cli_orders.cpp.
int run_order(const Options& options);

/// "warmroot: <error>" on standard error; the status to exit with.
int tell_error(const Error& error);

/// One line on standard error for each note.
void tell_notes(const std::vector<core::Note>& notes);

}  // namespace warmroot::manager
