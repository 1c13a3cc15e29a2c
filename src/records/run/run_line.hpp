#pragma once

#include <simdjson.h>

#include <string>
#include <string_view>

#include "records/run/run_log.hpp"

namespace cohort {

/// Turns a line of metrics.jsonl into its record. Keeps its memory from line to line.
class RunLineParser {
public:
    /// Reports the record in bytes [begin, end) of `text` to the visitor; an unknown event is
    /// ignored. @param text  gets room behind its end, which the library reads
    /// @return what is wrong with the line; empty: nothing
    [[nodiscard]] std::string take(std::string& text, std::size_t begin, std::size_t end,
                                   RunLogVisitor& visitor);
    /// Whether `text` is a whole JSON object.
    [[nodiscard]] bool is_whole(std::string& text);

private:
    [[nodiscard]] simdjson::simdjson_result<simdjson::dom::element> parse(std::string& text,
                                                                          std::size_t begin,
                                                                          std::size_t end);

    simdjson::dom::parser parser_;
    TrainLine window_;
};

}  // namespace cohort
