#include "cohort/core/error.hpp"
#include "cohort/core/output.hpp"
#include "core/units.hpp"

#include "data/dataset/dataset_layout.hpp"
#include "data/hdf5/hdf5_attributes.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace cohort {

namespace {

constexpr std::int64_t kMostVocabularyBytes = std::int64_t{256} << 20U;

TokenKind read_token_kind(hid_t vocabulary, const std::string& where) {
    const auto word = hdf5_read<std::string>(vocabulary, kTokensAttribute, where);
    const auto found = std::ranges::find(kWords<TokenKind>, word);
    require_file(found != kWords<TokenKind>.end(), where + "@" + kTokensAttribute,
                 "an unknown kind of tokens",
                 fmt::format("one of {}", fmt::join(kWords<TokenKind>, ", ")), word);
    return static_cast<TokenKind>(found - kWords<TokenKind>.begin());
}

}  // namespace

std::shared_ptr<const Vocabulary> read_vocabulary(const Hdf5Handle& file, const std::string& path) {
    const std::string name = std::string("/") + kVocabulary;
    const std::string where = path + ":" + name;
    if (!hdf5_exists(file.id(), name)) {
        return nullptr;
    }
    const Hdf5Handle stored = hdf5_open_dataset(file.id(), name, where);
    const std::vector<std::int64_t> shape = hdf5_shape(stored.id(), where);
    const std::string type = hdf5_type_name(hdf5_type_of(stored.id(), where).id());
    require_file(
        type == "uint8" && shape.size() == 1 && shape.front() <= kMostVocabularyBytes, where,
        "not the text of a vocabulary",
        fmt::format("uint8 [n] of at most {}", format_bytes(std::uint64_t{kMostVocabularyBytes})),
        type + " " + format_shape(shape));
    Vocabulary vocabulary{.kind = read_token_kind(stored.id(), where)};
    vocabulary.text.resize(static_cast<std::size_t>(shape.front()));
    hdf5_check(H5Dread(stored.id(), H5T_NATIVE_UINT8, H5S_ALL, H5S_ALL, H5P_DEFAULT,
                       vocabulary.text.data()),
               where, "cannot read the vocabulary (truncated or damaged)");
    return std::make_shared<const Vocabulary>(std::move(vocabulary));
}

void write_vocabulary(hid_t file, const Vocabulary& vocabulary, const std::string& path) {
    const std::string name = std::string("/") + kVocabulary;
    const std::string where = path + ":" + name;
    const hsize_t bytes = vocabulary.text.size();
    Hdf5Handle stored = hdf5_own(
        H5Dcreate2(file, name.c_str(), H5T_NATIVE_UINT8, hdf5_space({&bytes, 1}, where).id(),
                   H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT),
        where, "cannot create the data set");
    hdf5_check(H5Dwrite(stored.id(), H5T_NATIVE_UINT8, H5S_ALL, H5S_ALL, H5P_DEFAULT,
                        vocabulary.text.data()),
               where, "cannot write");
    hdf5_write(stored.id(), kTokensAttribute, word_of(vocabulary.kind), where);
    stored.close(where);
}

}  // namespace cohort
