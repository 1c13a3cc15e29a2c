#include "records/tensorboard/event_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "cohort/core/output.hpp"
#include "core/system/kept_file.hpp"
#include "records/tensorboard/event.pb.h"

namespace cohort {
namespace {

namespace fs = std::filesystem;

static_assert(std::endian::native == std::endian::little, "TFRecord files are little-endian");

constexpr std::string_view kMark = "tfevents";  // by which TensorBoard finds event files

constexpr std::array<std::uint32_t, 256> make_crc32c_table() {
    constexpr std::uint32_t kReversedPolynomial = 0x82F63B78U;
    std::array<std::uint32_t, 256> table{};
    for (std::uint32_t byte = 0; byte < table.size(); ++byte) {
        std::uint32_t value = byte;
        for (int bit = 0; bit < 8; ++bit) {
            value = (value >> 1U) ^ ((value & 1U) != 0 ? kReversedPolynomial : 0U);
        }
        table.at(byte) = value;
    }
    return table;
}

/// The checksum of TFRecord files, rotated so that a checksum over bytes with checksums in them
/// stays useful.
std::uint32_t masked_crc(std::string_view bytes) {
    return std::rotr(crc32c_of(bytes), 15) + 0xA282EAD8U;
}

template <class T>
void append(std::string& record, T value) {
    std::array<char, sizeof(T)> bytes{};
    std::memcpy(bytes.data(), &value, sizeof(T));
    record.append(bytes.data(), bytes.size());
}

std::string host_name() {
    std::array<char, 256> name{};
    return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

tensorboard::Event event_at(std::int64_t step, double wall_s) {
    tensorboard::Event event;
    event.set_wall_time(wall_s);
    event.set_step(step);
    return event;
}

/// Bytes of the records before the first one of a larger step; 0: the text does not begin with a
/// record.
std::size_t records_up_to(std::string_view text, std::int64_t step) {
    constexpr std::size_t kHead = sizeof(std::uint64_t) + sizeof(std::uint32_t);
    std::size_t at = 0;
    while (text.size() - at >= kHead) {
        std::uint64_t bytes = 0;
        std::uint32_t crc = 0;
        std::memcpy(&bytes, text.data() + at, sizeof bytes);
        std::memcpy(&crc, text.data() + at + sizeof bytes, sizeof crc);
        const std::size_t left = text.size() - at - kHead;
        if (masked_crc(text.substr(at, sizeof bytes)) != crc || left < sizeof crc ||
            bytes > left - sizeof crc) {
            break;
        }
        tensorboard::Event event;
        if (!event.ParseFromString(std::string(text.substr(at + kHead, bytes))) ||
            event.step() > step) {
            break;
        }
        at += kHead + bytes + sizeof crc;
    }
    return at;
}

}  // namespace

std::uint32_t crc32c_of(std::string_view bytes) noexcept {
    static constexpr std::array<std::uint32_t, 256> kTable = make_crc32c_table();
    std::uint32_t crc = ~0U;
    for (const char byte : bytes) {
        crc = kTable[(crc ^ static_cast<unsigned char>(byte)) & 0xFFU] ^ (crc >> 8U);
    }
    return ~crc;
}

EventFile::EventFile(const std::string& folder, double wall_s,
                     std::optional<std::int64_t> resumed_at) {
    make_own_folder(folder, FolderRule::kOwnReal);
    // Readers take the files of a folder in the order of their names.
    path_ = fmt::format("{}/events.out.{}.{:013.2f}.{}.{}", folder, kMark, wall_s, host_name(),
                        ::getpid());
    for (const std::string& older : event_files(folder)) {
        if (resumed_at) {
            cut_event_file(older, *resumed_at);
        }
    }
    file_ = FileDescriptor(open_in_place_or_fail(path_, O_RDWR | O_CREAT | O_EXCL | O_APPEND));
    tensorboard::Event version = event_at(0, wall_s);
    version.set_file_version("brain.Event:2");
    write(version.SerializeAsString());
    if (resumed_at) {  // a reader that follows them drops what it has seen from this step on
        tensorboard::Event start = event_at(*resumed_at + 1, wall_s);
        start.mutable_session_log()->set_status(tensorboard::SessionLog::START);
        write(start.SerializeAsString());
    }
}

void EventFile::scalars(std::int64_t step, double wall_s, std::span<const Scalar> values) {
    tensorboard::Event event = event_at(step, wall_s);
    for (const Scalar& scalar : values) {
        tensorboard::Summary::Value& value = *event.mutable_summary()->add_value();
        value.set_tag(scalar.tag);
        value.set_simple_value(static_cast<float>(scalar.value));
    }
    write(event.SerializeAsString());
}

void EventFile::text(std::int64_t step, double wall_s, std::string_view tag,
                     std::string_view text) {
    tensorboard::Event event = event_at(step, wall_s);
    tensorboard::Summary::Value& value = *event.mutable_summary()->add_value();
    value.set_tag(std::string(tag));
    value.mutable_metadata()->mutable_plugin_data()->set_plugin_name("text");
    tensorboard::TensorProto& tensor = *value.mutable_tensor();
    tensor.set_dtype(tensorboard::TensorProto::DT_STRING);
    tensor.mutable_tensor_shape()->add_dim()->set_size(1);
    tensor.add_string_val(std::string(text));
    write(event.SerializeAsString());
}

void EventFile::write(const std::string& event) {
    std::string record;
    append(record, std::uint64_t{event.size()});
    append(record, masked_crc(record));
    record += event;
    append(record, masked_crc(event));
    make_own_folder(fs::path(path_).parent_path().string(), FolderRule::kOwnReal);
    restore_file(file_, path_, bytes_);
    if (const int error = write_all(file_.get(), record); error != 0) {
        fail_errno(path_, "cannot be written", error);
    }
    bytes_ += static_cast<std::int64_t>(record.size());
}

void cut_event_file(const std::string& path, std::int64_t step) {
    const FileDescriptor file(open_in_place_or_fail(path, O_RDWR));
    const std::int64_t size = std::max<std::int64_t>(::lseek(file.get(), 0, SEEK_END), 0);
    std::string text(static_cast<std::size_t>(size), '\0');
    for (std::size_t at = 0; at < text.size();) {
        const ssize_t got =
            ::pread(file.get(), text.data() + at, text.size() - at, static_cast<off_t>(at));
        if (got <= 0) {
            fail_errno(path, "cannot be read to be cut at the checkpoint", got < 0 ? errno : EIO);
        }
        at += static_cast<std::size_t>(got);
    }
    const std::size_t kept = records_up_to(text, step);
    if (kept > 0 && kept < text.size() && ::ftruncate(file.get(), static_cast<off_t>(kept)) != 0) {
        fail_errno(path, "cannot be cut at the checkpoint", errno);
    }
}

void add_scores(std::vector<EventFile::Scalar>& values, std::string_view group,
                const std::vector<Score>& scores) {
    for (const Score& score : scores) {
        values.push_back({fmt::format("{}/{}", group, score.name), score.value});
    }
}

std::vector<std::string> event_files(const std::string& folder) {
    std::vector<std::string> files;
    std::error_code error;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
        if (entry.path().filename().string().find(kMark) != std::string::npos) {
            files.push_back(entry.path().string());
        }
    }
    std::sort(files.begin(), files.end());
    return files;
}

}  // namespace cohort
