#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "train/protocol/comm_context.hpp"

namespace cohort {

/// Makes sure that no transfer writes into a role's memory any more: called by the role that has
/// the port, at its end, before its TransferSink and that memory go. On return the port has no sink
/// and all that the sink had accepted is complete. Messages that still come are lost but for
/// `arrived`, so the caller has received all that matters to it (kStop; a coordinator: the final
/// reports).
///
/// @param name of the wait, e.g. "last parameters"; peers owe the rest, so a stall is fatal
/// @param still_coming world ranks whose transfers the sink has accepted and that are not
///        complete; any thread may ask while this call lasts. Ranks that are excluded from the job
///        are not waited for
/// @param arrived takes every message that still comes out of the mailbox, so that the sink's owner
///        can strike complete transfers off its list: announcements of transfers that the sink
///        never saw, or had refused, are among them, and so are messages of other kinds
void complete_transfers(const CommContext& comm, Port port, std::string_view name,
                        const std::function<std::vector<int>()>& still_coming,
                        const std::function<void(const Message&)>& arrived);

/// Keeps the memory of a transfer whose sender was lost until the process ends, since the
/// communication thread may still have receives posted on it. Thread safe.
void keep_for_good(std::shared_ptr<const void> memory);

}  // namespace cohort
