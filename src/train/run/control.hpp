#pragma once

#include <string>

#include "cohort/core/clock.hpp"

namespace cohort {

/// A running job's answer to a request.
struct ControlReply {
    bool accepted = false;
    std::string text;  ///< for people; several lines for "status"
};

/// Sends a request to the job that writes into folder `out`: "mode static:4", "status" or "stop".
/// Request and answer are files in OUT/ctl, so this works from any machine that shares the file
/// system; only the job's owner can write there. Blocks until the answer has been written. Errors:
/// UsageError for a malformed request; FileError when no job listens there or the folder cannot be
/// used; PeerError when no answer came within `limit` (the request is withdrawn).
[[nodiscard]] ControlReply ask_job(const std::string& out, const std::string& request,
                                   Clock::Seconds limit);

}  // namespace cohort
