#pragma once

#include <string>
#include <vector>

#include "cohort/core/output.hpp"

namespace cohort {

/// How much of what it could use somebody has, from a moment on.
struct Shares {
    double cpu = 1;      ///< of its processors, (0, 1]
    double rx = 1;       ///< of its node's network card, in, (0, 1]
    double tx = 1;       ///< the same, out
    double device = 1;   ///< of its device, (0, 1]
    double delay_s = 0;  ///< added to every iteration whatever its batch, seconds
    friend bool operator==(const Shares&, const Shares&) = default;
};

/// Whom a row of a trace concerns.
struct TraceTarget {
    enum class Kind : std::uint8_t { kNode, kWorker };
    Kind kind = Kind::kWorker;
    int index = 0;
    friend auto operator<=>(const TraceTarget&, const TraceTarget&) = default;
};
/// "node:3" or "worker:5".
[[nodiscard]] std::string to_string(const TraceTarget& target);

/// From `time_s` on. What a worker has is the product of its own shares and its node's (delays
/// add); rx and tx count for nodes only.
struct TraceRow {
    double time_s = 0;
    TraceTarget target;
    Shares shares;
    friend bool operator==(const TraceRow&, const TraceRow&) = default;
};

/// CSV with the header time_s,target,cpu_share,rx_share,tx_share,device_share,delay_s; target is
/// "node:3" or "worker:5"; columns in any order, those but the first two may be missing (1, and 0
/// for the delay). Rows may be in any order. Errors: FileError naming file, line and field.
[[nodiscard]] std::vector<TraceRow> read_trace(const std::string& path);
/// At once or not at all. Errors: FileError, UsageError: as replace_text_file.
void write_trace(const OutputFile& file, const std::vector<TraceRow>& rows);

}  // namespace cohort
