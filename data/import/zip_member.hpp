#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

struct zip;  // of libzip
struct zip_file;

namespace cohort {

/// Names of the files of a ZIP archive in its own order, folders left out. Errors: FileError naming
/// the archive.
[[nodiscard]] std::vector<std::string> zip_entries(const std::string& archive);

/// A path that leads into an archive: "set.npz/x_train.npy" is x_train.npy in set.npz.
struct ZipPath {
    std::string archive;  ///< empty: a path of a plain file
    std::string name;
};
[[nodiscard]] ZipPath split_zip_path(const std::string& path);

struct ZipClose {
    void operator()(zip* archive) const noexcept;
    void operator()(zip_file* file) const noexcept;
};

/// One file of an archive, read from front to back and compared with its CRC-32 at the end, by
/// libzip. Errors: FileError naming archive and file.
class ZipMember {
public:
    explicit ZipMember(const ZipPath& path);

    /// Reads up to bytes.size() bytes; fewer only at the end.
    [[nodiscard]] std::size_t read_some(std::span<std::byte> bytes);

private:
    std::string where_;
    std::unique_ptr<zip, ZipClose> archive_;
    std::unique_ptr<zip_file, ZipClose> file_;
};

}  // namespace cohort
