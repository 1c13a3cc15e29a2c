#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/core/file_descriptor.hpp"

namespace cohort {

/// A file within a ZIP archive.
struct ZipEntry {
    std::string name;
    std::uint64_t header = 0;  ///< offset of its local header
    std::uint64_t packed_bytes = 0;
    std::uint64_t bytes = 0;
    std::uint32_t crc32 = 0;
    std::uint16_t method = 0;  ///< 0: stored, 8: deflated
};

/// The files of an archive in its own order, folders left out. Errors: FileError naming the
/// archive.
[[nodiscard]] std::vector<ZipEntry> zip_entries(const std::string& archive);

/// A path that leads into an archive: "set.npz/x_train.npy" is x_train.npy in set.npz.
struct ZipPath {
    std::string archive;  ///< empty: a path of a plain file
    std::string name;
};
[[nodiscard]] ZipPath split_zip_path(const std::string& path);

/// One file of an archive, read from front to back, its length and CRC-32 compared at the end.
/// Errors: FileError naming archive and file.
class ZipMember {
public:
    explicit ZipMember(const ZipPath& path);
    ZipMember(ZipMember&&) noexcept;
    ZipMember& operator=(ZipMember&&) noexcept;
    ~ZipMember();

    /// Reads up to bytes.size() bytes; fewer only at the end.
    [[nodiscard]] std::size_t read_some(std::span<std::byte> bytes);

private:
    struct Inflate;

    void find_data();
    /// The next packed bytes.
    [[nodiscard]] std::span<std::byte> fetch();
    void check_end() const;
    [[noreturn]] void fail_damaged(std::string_view what) const;

    std::string where_;
    std::string archive_;
    FileDescriptor file_;
    ZipEntry entry_;
    std::uint64_t at_ = 0;    ///< offset of the next packed byte
    std::uint64_t left_ = 0;  ///< packed bytes not fetched yet
    std::uint64_t done_ = 0;  ///< bytes given out
    std::uint32_t crc_ = 0;   ///< of those
    std::vector<std::byte> buffer_;
    std::unique_ptr<Inflate> inflate_;  ///< of a deflated file
};

}  // namespace cohort
