#pragma once

#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "train/protocol/links.hpp"

namespace cohort {

/// Ensures that no transfer writes into a role's memory any more. The role that has the port calls
/// this at its end, before its TransferSink and that memory are destroyed. On return the port has
/// no sink, and all transfers that the sink had accepted are complete. Later messages are lost
/// except for `arrived`, so the caller must have received all messages that it needs (kStop; a
/// coordinator: the final reports).
///
/// @param name  of the wait, e.g. "last parameters"; the transfers have been promised, so a stall
/// is fatal
/// @param still_coming  world ranks whose transfers the sink has accepted and that are not
/// complete; called from any thread during this call. Ranks excluded from the job are not waited
/// for
/// @param arrived  takes every message that still comes out of the mailbox, so that the sink's
/// owner can remove complete transfers from its list; among them are announcements of transfers
/// that the sink never saw or had refused, and messages of other kinds
void settle(const Links& links, Port port, std::string_view name,
            const std::function<std::vector<int>()>& still_coming,
            const std::function<void(const Message&)>& arrived);

/// Keeps the memory of a transfer whose sender was lost until the process ends, since the
/// communication thread may still have receives posted on it. Thread safe.
void keep_for_good(std::shared_ptr<const void> memory);

}  // namespace cohort
