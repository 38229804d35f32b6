"""The clients, stages, masks and data of PrivacyFL (Mugunthan et al., CIKM 2020; Mugunthan, MIT 2022)."""
