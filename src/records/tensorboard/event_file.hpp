#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/core/file_descriptor.hpp"
#include "core/scores.hpp"

namespace cohort {

/// An event file of TensorBoard: records of tensorflow/core/util/event.proto in the framing of
/// TFRecord files (length, masked CRC-32C of the length, bytes, masked CRC-32C of the bytes).
/// Each record is written at once, so a reader may follow the file.
class EventFile {
public:
    struct Scalar {
        std::string tag;  ///< "GROUP/NAME": TensorBoard shows a group's curves together
        double value = 0;
    };

    /// Makes a new file in the folder.
    /// @param wall_s  seconds since 1970, as everywhere here
    /// @param resumed_at  the run goes on from this step: older files of the folder are cut at the
    /// first larger one
    /// Errors: FileError.
    EventFile(const std::string& folder, double wall_s, std::optional<std::int64_t> resumed_at);

    /// Errors of both: FileError.
    void scalars(std::int64_t step, double wall_s, std::span<const Scalar> values);
    /// @param text  Markdown
    void text(std::int64_t step, double wall_s, std::string_view tag, std::string_view text);

    [[nodiscard]] const std::string& path() const noexcept { return path_; }

private:
    void write(const std::string& event);

    std::string path_;
    FileDescriptor file_;
    std::int64_t bytes_ = 0;  ///< of whole records
};

/// Cuts an event file before its first record of a larger step, or one that is torn; not a file of
/// another kind. Errors: FileError.
void cut_event_file(const std::string& path, std::int64_t step);

/// Adds scores as scalars GROUP/NAME.
void add_scores(std::vector<EventFile::Scalar>& values, std::string_view group,
                const std::vector<Score>& scores);

/// The event files of a folder; none when it does not exist.
[[nodiscard]] std::vector<std::string> event_files(const std::string& folder);

/// The CRC-32C (Castagnoli) of RFC 3720.
[[nodiscard]] std::uint32_t crc32c_of(std::string_view bytes) noexcept;

}  // namespace cohort
