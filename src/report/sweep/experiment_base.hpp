#pragma once

#include <toml++/toml.h>

#include <string>

namespace cohort {

/// Reads the file of an experiment and merges it into the experiment that its key `base` names, if
/// it has that key: a path relative to the file's folder. Options of [job] and [tuning] replace
/// those of the same name,
/// [[mode]] and [[pattern]] follow those of the base, every other key replaces the base's.
/// Errors: as TomlReader::parse; UsageError for files that are based on each other.
[[nodiscard]] toml::table read_with_base(const std::string& path);

}  // namespace cohort
