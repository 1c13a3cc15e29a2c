#include "data/import/zip_member.hpp"

#include "cohort/core/error.hpp"
#include "cohort/core/output.hpp"

#include "data/file/file_io.hpp"

#include <fmt/format.h>

#include <zip.h>
#include <algorithm>
#include <cctype>
#include <filesystem>

namespace cohort {

namespace {

constexpr std::string_view kDamaged = "the archive is damaged or cut off";

/// @param what  is wrong with the archive or its file, where the reason is none of the system's
/// @param reason  its text is released; libzip allows that for an archive's own error, too
[[noreturn]] void fail_zip(const std::string& where, std::string_view what, zip_error_t* reason) {
    const int code = ::zip_error_code_zip(reason);
    const bool memory = code == ZIP_ER_MEMORY;
    const bool system = code == ZIP_ER_OPEN || code == ZIP_ER_READ || code == ZIP_ER_SEEK ||
                        code == ZIP_ER_TELL || code == ZIP_ER_INTERNAL;
    const std::string text = ::zip_error_strerror(reason);
    ::zip_error_fini(reason);
    fail<FileError>({.where = where,
                     .what = memory   ? "out of memory"
                             : system ? "cannot be read"
                                      : what,
                     .got = text});
}

std::unique_ptr<zip, ZipClose> open_archive(const std::string& path) {
    static_cast<void>(check_readable(path));
    int error = 0;
    std::unique_ptr<zip, ZipClose> archive(::zip_open(path.c_str(), ZIP_RDONLY, &error));
    if (!archive) {
        zip_error_t reason;
        ::zip_error_init_with_code(&reason, error);
        fail_zip(path, "not a ZIP archive, or a damaged one", &reason);
    }
    return archive;
}

}  // namespace

void ZipClose::operator()(zip* archive) const noexcept {
    ::zip_discard(archive);
}

void ZipClose::operator()(zip_file* file) const noexcept {
    static_cast<void>(::zip_fclose(file));
}

std::vector<std::string> zip_entries(const std::string& archive) {
    const std::unique_ptr<zip, ZipClose> open = open_archive(archive);
    const zip_int64_t count = ::zip_get_num_entries(open.get(), 0);
    std::vector<std::string> names;
    for (zip_int64_t i = 0; i < count; ++i) {
        const char* const name = ::zip_get_name(open.get(), static_cast<zip_uint64_t>(i), 0);
        require_file(name != nullptr, archive, "not a ZIP archive, or a damaged one", "", "");
        names.emplace_back(name);
    }
    std::erase_if(names, [](const std::string& name) { return name.ends_with('/'); });
    return names;
}

ZipPath split_zip_path(const std::string& path) {
    constexpr std::string_view kInside = ".npz/";
    std::error_code error;
    std::string lower = path;
    std::ranges::transform(lower, lower.begin(), [](unsigned char letter) {
        return static_cast<char>(std::tolower(letter));
    });
    for (std::size_t at = lower.find(kInside); at != std::string::npos;
         at = lower.find(kInside, at + 1)) {
        const std::string archive = path.substr(0, at + kInside.size() - 1);
        if (std::filesystem::is_regular_file(archive, error)) {
            return {archive, path.substr(at + kInside.size())};
        }
    }
    return {"", path};
}

ZipMember::ZipMember(const ZipPath& path)
    : where_(path.archive + "/" + path.name), archive_(open_archive(path.archive)) {
    const zip_int64_t index = ::zip_name_locate(archive_.get(), path.name.c_str(), 0);
    require_file(index >= 0, where_, "the archive has no such file", "", "");
    zip_stat_t facts;
    ::zip_stat_init(&facts);
    const auto at = static_cast<zip_uint64_t>(index);
    if (::zip_stat_index(archive_.get(), at, 0, &facts) != 0) {
        fail_zip(where_, kDamaged, ::zip_get_error(archive_.get()));
    }
    require_file(facts.encryption_method == ZIP_EM_NONE, where_, "the file is encrypted", "", "");
    require_file(::zip_compression_method_supported(facts.comp_method, 0) == 1, where_,
                 "unusable compression", "numpy.savez or numpy.savez_compressed",
                 fmt::format("method {}", facts.comp_method));
    file_.reset(::zip_fopen_index(archive_.get(), at, 0));
    if (!file_) {
        fail_zip(where_, kDamaged, ::zip_get_error(archive_.get()));
    }
}

std::size_t ZipMember::read_some(std::span<std::byte> bytes) {
    std::size_t done = 0;
    while (done < bytes.size()) {
        const zip_int64_t got = ::zip_fread(file_.get(), bytes.data() + done, bytes.size() - done);
        if (got < 0) {
            fail_zip(where_, kDamaged, ::zip_file_get_error(file_.get()));
        }
        if (got == 0) {
            break;
        }
        done += static_cast<std::size_t>(got);
    }
    return done;
}

}  // namespace cohort
